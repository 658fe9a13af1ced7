// What the examples share: repeatable numbers, and a check that says what it found.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

inline std::vector<float> numbers(std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(n);
  for (float& x : all) x = normal(engine);
  return all;
}

// Prints the largest difference of two results; ends the program if it is beyond `bound`.
inline void check(const char* what, const std::vector<float>& got, const std::vector<float>& want, double bound) {
  double most = 0;
  bool good = got.size() == want.size();
  for (std::size_t i = 0; good && i < want.size(); ++i) {
    const double difference = std::fabs(double(got[i]) - double(want[i]));
    good = difference <= bound;  // a NaN is not
    most = std::fmax(most, difference);
  }
  std::printf("%-44s largest difference %.1e, allowed %.1e: %s\n", what, most, bound, good ? "good" : "WRONG");
  if (!good) std::exit(1);
}
