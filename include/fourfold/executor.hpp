// Where a move runs: `reference` is the definition itself, `Team` is threads.
#pragma once

#include <atomic>
#include <concepts>
#include <thread>
#include <vector>

namespace fourfold {

// Runs the element-level definition, one element after the other, in arithmetic T. The specification.
template <class T>
struct Reference {
  using Real = T;
};
inline constexpr Reference<double> reference;
inline constexpr Reference<float> reference_f32;

// pool(n, f) calls f(i) once for each i in [0, n), on any thread and in any order, and returns when all are done.
template <class P>
concept ParallelFor = requires(const P& pool) {
  pool(1, [](int) {});
};

// Threads started for each call; the caller is one of them. Any other ParallelFor can stand in its place.
struct Team {
  int threads = 1;

  template <class F>
  void operator()(int n, F&& f) const {
    std::atomic<int> next = 0;
    const auto work = [&] {
      for (int i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) f(i);
    };
    std::vector<std::jthread> helpers;
    for (int t = 1; t < threads && t < n; ++t) helpers.emplace_back(work);
    work();
  }
};

}  // namespace fourfold
