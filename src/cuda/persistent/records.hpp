// From a Plan to the records of its kernel.
#pragma once

#include <functional>
#include <vector>

#include "cuda/persistent/launch.hpp"

namespace fourfold::cuda::persistent {

// Device addresses of what a Program names.
struct Places {
  // Per step: tiles [row group][slice] of its dots one after the other, gate and up alternating by row groups; biases
  // and scales of the same rows in the same order, f32 (0: none).
  std::vector<std::uint64_t> tiles, biases, scales;
  std::function<std::uint64_t(Weight)> vector;  // a norm's weights, f32
  std::vector<std::uint64_t> caches, turns;     // per cache; per rope: {cos, sin} [position][dims / 2], f32
};

struct Records {
  int stride = 0;               // records of each CTA
  std::vector<Record> records;  // [CTA][stride]
  std::vector<std::uint16_t> counts;
  std::vector<CounterTarget> targets;
};

Records make_records(const Plan& plan, const Program& program, const Places& places);

}  // namespace fourfold::cuda::persistent
