#include "models/random_weights.hpp"

#include <cmath>
#include <functional>

namespace fourfold {

std::optional<RandomBytes> RandomWeights::random(const TensorSpec& tensor) const {
  const std::uint64_t stream = RandomBytes::mix(seed_ ^ std::hash<std::string>{}(tensor.name));
  const bool vector = tensor.rows == 1;
  const float deviation = vector ? 0.1f : 1 / std::sqrt(static_cast<float>(tensor.cols));
  return RandomBytes{tensor.storage, stream, deviation, vector ? 1 - tensor.add : 0};
}

status RandomWeights::read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  const RandomBytes random = *this->random(tensor);
  const auto size = static_cast<std::size_t>(info(tensor.storage).block_bytes);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
  for (std::size_t block = 0; block < out.size() / size; ++block)
    random.block(offset / size + block, bytes + block * size);
  return {};
}

}  // namespace fourfold
