// Bytes of a weight that is made from parts of a checkpoint's tensors (TensorSpec::parts).
#pragma once

#include <cstdint>
#include <span>

#include "formats/checkpoint.hpp"
#include "fourfold/program.hpp"

namespace fourfold {

// As WeightBytes::read; the parts are known to lie within their tensors.
status read_parts(const Checkpoint& checkpoint, const TensorSpec& tensor, std::uint64_t offset,
                  std::span<std::byte> out);

// The same for TensorLayout::turned. Each matrix that the range touches is read whole.
status read_turned(const Checkpoint& checkpoint, const TensorSpec& tensor, std::uint64_t offset,
                   std::span<std::byte> out);

}  // namespace fourfold
