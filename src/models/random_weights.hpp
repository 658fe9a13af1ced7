// RandomWeights: bytes for a named shape. Every 8 bytes are a hash of (seed, tensor, place), so any range can be read
// by any thread in any order; scales are then set so that a matrix keeps the size of what it multiplies.
#pragma once

#include "program/backend.hpp"

namespace fourfold {

class RandomWeights : public WeightBytes {
 public:
  explicit RandomWeights(std::uint64_t seed) : seed_(seed) {}
  // Offsets and sizes have to be whole blocks of the tensor's storage.
  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::uint64_t seed_;
};

}  // namespace fourfold
