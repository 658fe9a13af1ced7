// Seeded numbers for the law tests: every run draws the same.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

namespace fourfold::test {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  int integer(int first, int last) { return std::uniform_int_distribution(first, last)(engine_); }
  bool chance(double p) { return std::uniform_real_distribution()(engine_) < p; }
  float normal(float scale = 1) { return scale * std::normal_distribution<float>()(engine_); }
  float uniform(float a, float b) { return std::uniform_real_distribution<float>(a, b)(engine_); }
  std::vector<float> normals(std::size_t n, float scale = 1) {
    std::vector<float> all(n);
    for (float& x : all) x = normal(scale);
    return all;
  }
  template <class T>
  void shuffle(std::vector<T>& all) {
    std::shuffle(all.begin(), all.end(), engine_);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace fourfold::test
