// CheckpointBytes: weights come from the tensors of an open checkpoint, which has to outlive it.
#pragma once

#include "formats/checkpoint.hpp"
#include "program/backend.hpp"

namespace fourfold {

class CheckpointBytes : public WeightBytes {
 public:
  explicit CheckpointBytes(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  const Checkpoint& checkpoint_;
};

}  // namespace fourfold
