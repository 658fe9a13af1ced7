// Where a move runs: `reference` is the definition itself, `Team` is threads.
#pragma once

#include <atomic>
#include <concepts>
#include <system_error>
#include <thread>
#include <type_traits>
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
    try {
      for (int t = 1; t < threads && t < n; ++t) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // the system has no more threads: go on with those there are
    }
    work();
  }
};

// The arithmetic of a move on X: the reference's own, or `Real` on threads.
namespace detail {
template <class X, class Real>
struct RealOn {
  using type = Real;
};
template <class T, class Real>
struct RealOn<Reference<T>, Real> {
  using type = T;
};
}  // namespace detail
template <class X, class Real>
using real_on = typename detail::RealOn<X, Real>::type;

// f(i) for each i in [0, n): in order on a reference, shared out by a pool.
template <class T, class F>
void for_each(const Reference<T>&, int n, F&& f) {
  for (int i = 0; i < n; ++i) f(i);
}
template <ParallelFor P, class F>
void for_each(const P& pool, int n, F&& f) {
  pool(n, f);
}

// How a bound move holds its executor: a small one by value, a pool of threads by reference.
template <class X>
using Held = std::conditional_t<std::is_trivially_copyable_v<X>, X, const X&>;

}  // namespace fourfold
