// CheckpointBytes: weights come from the tensors of an open checkpoint, which has to outlive it.
#pragma once

#include "engine/checkpoint_parts.hpp"
#include "formats/checkpoint.hpp"
#include "program/backend.hpp"

namespace fourfold {

class CheckpointBytes : public WeightBytes {
 public:
  explicit CheckpointBytes(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override {
    if (!tensor.parts.empty()) return read_parts(checkpoint_, tensor, offset, out);
    return checkpoint_.read(*checkpoint_.find(tensor.name), offset, out);
  }

 private:
  const Checkpoint& checkpoint_;
};

}  // namespace fourfold
