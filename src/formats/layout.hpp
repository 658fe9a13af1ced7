// Where tensors lie in a file: sizes without overflow, and ranges that stay inside the file and apart.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <span>
#include <vector>

#include "formats/tensor_info.hpp"

namespace fourfold {

// The product of the dimensions (each >= 0) in `elements`; malformed if it exceeds 2^63 - 1.
status count_elements(std::span<const std::int64_t> shape, std::uint64_t& elements);

// Bytes of a tensor whose rows (last dimension) are made of blocks.
status tensor_bytes(std::span<const std::int64_t> shape, std::uint64_t block_elements, std::uint64_t block_bytes,
                    std::uint64_t& bytes);

// Makes every offset absolute by adding `data`, then checks that each tensor ends inside the file and that no two
// overlap. Tensors of 0 bytes take no room. Gaps are allowed (GGUF pads).
status place_tensors(std::vector<TensorInfo>& tensors, std::uint64_t data, std::uint64_t file_size);

}  // namespace fourfold
