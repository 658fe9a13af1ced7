// The loops of the probe tables, generic over a vector type V (GCC vector extension). Each unit that includes this
// compiles its own copy for its own ISA: everything has internal linkage.
// Binds, by design: memory (walks), the arithmetic pipes (chains).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/simd/probe.hpp"

namespace fourfold::simd {
namespace {

// After this the compiler knows nothing about v, which stays in a register.
#if defined(__AVX512F__)
template <class V>
[[gnu::always_inline]] inline void keep(V& v) {
  asm volatile("" : "+v"(v));
}
#elif defined(__x86_64__)
template <class V>
[[gnu::always_inline]] inline void keep(V& v) {
  asm volatile("" : "+x"(v));
}
#else
template <class V>
[[gnu::always_inline]] inline void keep(V& v) {
  asm volatile("" : "+w"(v));
}
#endif

enum class Hint { none, near, once };  // no prefetch; into all caches; past the outer ones

// Reads `Streams` equal parts side by side, four vectors of each at a time, asking for lines `Ahead` bytes early.
template <class V, int Streams, Hint kHint, std::size_t Ahead>
void walk(const void* data, std::size_t bytes) {
  constexpr std::size_t kStep = 256;
  const std::size_t part = bytes / Streams;
  const char* const base = static_cast<const char*>(data);
  V sum[Streams] = {};
  for (std::size_t at = 0; at < part; at += kStep) {
    for (std::size_t stream = 0; stream < Streams; ++stream) {
      const char* const p = base + stream * part + at;
      for (std::size_t i = 0; i < kStep; i += sizeof(V)) {
        if constexpr (kHint == Hint::near) {
          if (i % 64 == 0) __builtin_prefetch(p + i + Ahead, 0, 3);
        } else if constexpr (kHint == Hint::once) {
          if (i % 64 == 0) __builtin_prefetch(p + i + Ahead, 0, 0);
        }
        sum[stream] ^= *reinterpret_cast<const V*>(p + i);
      }
    }
  }
  for (V& s : sum) keep(s);
}

// Independent accumulators, each fed by op(accumulator, a, b) once per iteration: enough of them to hide a latency of 6
// cycles at 2 a cycle, as far as there are registers. Named one by one: an array would live in memory.
#if defined(__AVX512F__)
constexpr int kChains = 16;
#else
constexpr int kChains = 12;
#endif

template <class V, class Op>
void chains(V a, V b, std::int64_t iterations, Op op) {
  const auto feed = [&](V& c) {
    keep(a);  // so that no part of op is computed once for all
    c = op(c, a, b);
  };
  V c0{}, c1{}, c2{}, c3{}, c4{}, c5{}, c6{}, c7{}, c8{}, c9{}, c10{}, c11{}, c12{}, c13{}, c14{}, c15{};
  keep(b);
  for (std::int64_t i = 0; i < iterations; ++i) {
    feed(c0), feed(c1), feed(c2), feed(c3), feed(c4), feed(c5);
    feed(c6), feed(c7), feed(c8), feed(c9), feed(c10), feed(c11);
    keep(c0), keep(c1), keep(c2), keep(c3), keep(c4), keep(c5);
    keep(c6), keep(c7), keep(c8), keep(c9), keep(c10), keep(c11);
    if constexpr (kChains == 16) {
      feed(c12), feed(c13), feed(c14), feed(c15);
      keep(c12), keep(c13), keep(c14), keep(c15);
    }
  }
}

}  // namespace
}  // namespace fourfold::simd
