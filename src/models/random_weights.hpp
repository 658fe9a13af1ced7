// RandomWeights: bytes for a named shape, from RandomBytes: any range can be read by any thread in any order.
#pragma once

#include "program/backend.hpp"

namespace fourfold {

class RandomWeights : public WeightBytes {
 public:
  explicit RandomWeights(std::uint64_t seed) : seed_(seed) {}
  // Offsets and sizes have to be whole blocks of the tensor's storage.
  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override;
  std::optional<RandomBytes> random(const TensorSpec& tensor) const override;

 private:
  std::uint64_t seed_;
};

}  // namespace fourfold
