#include "models/random_weights.hpp"

#include <cmath>
#include <cstring>
#include <functional>

#include "fourfold/blocks.hpp"

namespace fourfold {
namespace {

// SplitMix64's finaliser.                                                         Steele, Lea and Flood 2014
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Uniform in [-1, 1) from the low 24 bits.
float uniform(std::uint64_t bits) { return static_cast<float>(bits & 0xffffff) / 8388608.0f - 1; }

void put_half(std::uint8_t* at, float value) {
  const std::uint16_t half = float_to_half(value);
  std::memcpy(at, &half, sizeof half);
}

// Standard deviation of the codes of a storage when its bits are random, scale 1; and where its f16 scales lie.
struct Scales {
  float deviation;
  int scale, minimum;  // byte offsets of f16 fields in a block; -1: none
  float centre;        // minimum = -centre * scale makes the mean zero
};
Scales scales_of(Storage storage) {
  switch (storage) {
    case Storage::q4_0:
      return {4.61f, 0, -1, 0};
    case Storage::q4_1:
      return {4.61f, 0, 2, 7.5f};
    case Storage::q5_0:
      return {9.23f, 0, -1, 0};
    case Storage::q5_1:
      return {9.23f, 0, 2, 15.5f};
    case Storage::q8_0:
      return {73.9f, 0, -1, 0};
    case Storage::q4_k:
      return {4.61f * 36.4f, 0, 2, 0};
    case Storage::q5_k:
      return {9.23f * 36.4f, 0, 2, 0};
    case Storage::q6_k:
      return {18.5f * 73.9f, 208, -1, 0};
    default:
      return {1, -1, -1, 0};
  }
}

}  // namespace

status RandomWeights::read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  const auto& storage = info(tensor.storage);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out.data());
  const std::uint64_t stream = mix(seed_ ^ std::hash<std::string>{}(tensor.name));
  const bool vector = tensor.rows == 1;
  const float deviation = vector ? 0.1f : 1 / std::sqrt(static_cast<float>(tensor.cols));
  const std::size_t size = static_cast<std::size_t>(storage.block_bytes);
  if (storage.block_elements == 1) {
    for (std::size_t i = 0; i < out.size() / size; ++i) {
      const float x = (vector ? 1 - tensor.add : 0) + deviation * 1.7320508f * uniform(mix(stream + offset / size + i));
      if (tensor.storage == Storage::f32) {
        std::memcpy(bytes + i * size, &x, sizeof x);
      } else {
        const std::uint16_t half = tensor.storage == Storage::f16 ? float_to_half(x) : float_to_bf16(x);
        std::memcpy(bytes + i * size, &half, sizeof half);
      }
    }
    return {};
  }
  const Scales scales = scales_of(tensor.storage);
  for (std::size_t block = 0; block < out.size() / size; ++block) {
    std::uint8_t* at = bytes + block * size;
    const std::uint64_t place = stream + (offset / size + block) * 64;
    for (std::size_t i = 0; i < size; i += 8) {
      const std::uint64_t word = mix(place + i / 8);
      std::memcpy(at + i, &word, std::min<std::size_t>(8, size - i));
    }
    const float scale = deviation / scales.deviation;
    put_half(at + scales.scale, scale);
    if (scales.minimum >= 0) put_half(at + scales.minimum, scales.centre > 0 ? -scales.centre * scale : scale * 7.5f);
  }
  return {};
}

}  // namespace fourfold
