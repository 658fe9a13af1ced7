// What benchmarks of arithmetic share: a pool of all processors, medians, and the float32 multiply-add peak, probed in
// turns with what it is the ceiling of.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "cpu/pool.hpp"
#include "cpu/topology.hpp"
#include "lab/probe.hpp"

namespace fourfold {

// A pool of all processors as a ParallelFor.
class Processors {
 public:
  Processors() : pool_(Pool::create(default_threads()).value()) {}
  template <class F>
  void operator()(int n, F&& f) const {
    std::atomic<int> next = 0;
    (void)pool_->run([&](Worker&) {
      for (int i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) f(i);
    });
  }
  Pool& pool() const { return *pool_; }

 private:
  std::unique_ptr<Pool> pool_;
};
inline const Processors& processors() {
  static const Processors all;
  return all;
}

template <class F>
double seconds_of(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The value `quarters` quarters up the sorted list: 2 is the median.
inline double quartile(std::vector<double> all, std::size_t quarters) {
  std::sort(all.begin(), all.end());
  return all[quarters * (all.size() - 1) / 4];
}

// Multiply-adds of all processors for about 5 ms, FLOP per second.
inline double multiply_add_peak() {
  const auto& loop = probe_level("").value()->f32_fma;
  constexpr std::int64_t kIterations = 1 << 20;
  const double seconds = seconds_of([&] { (void)processors().pool().run([&](Worker&) { loop.run(kIterations); }); });
  return loop.ops * kIterations * processors().pool().threads() / seconds;
}

// The rate and its share of the ceiling: medians, and the rate's interquartile range.
inline void report(benchmark::State& state, const std::vector<double>& seconds, const std::vector<double>& ceilings,
                   double work, const char* unit) {
  const double rate = work / quartile(seconds, 2), ceiling = quartile(ceilings, 2);
  state.counters[unit] = rate;
  state.counters["seconds"] = quartile(seconds, 2);
  state.counters["spread"] = work / quartile(seconds, 1) - work / quartile(seconds, 3);
  state.counters["ceiling"] = ceiling;
  state.counters["share"] = rate / ceiling;
}

}  // namespace fourfold
