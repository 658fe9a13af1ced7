// Noise: numbers of mean 0 and standard deviation 1, uniform, the same ones for a seed: what caches are filled with.
#pragma once

#include <cstdint>

namespace fourfold {

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed) {}

  float operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
    return (static_cast<float>(state_ >> 40) / 8388608.0f - 1) * 1.7320508f;
  }

 private:
  std::uint64_t state_;
};

}  // namespace fourfold
