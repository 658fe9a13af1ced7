// What the decode and the prefill kernel of attention share: how a walk meets leaves, and running softmax states.
//
// Scores are kept in units of log2, so that a weight is one exp2; a score beyond 1e38 counts as 1e38.
#pragma once

#include <fourfold/math.hpp>
#include <fourfold/score.hpp>
#include <fourfold/walk.hpp>

#include "cuda/attend.hpp"
#include "cuda/sm90/kv.cuh"

namespace fourfold::cuda::sm90 {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kMostScore = 1e38f;

// The keys among [0, end) from the first to the last that one of `queries` visits.
template <class W>
__device__ __forceinline__ Range visited(const W& walk, Range queries, int end) {
  Range keys{};
  if constexpr (requires { walk.span(queries); }) {
    keys = walk.span(queries);
  } else {
    keys = {kEveryKey, 0};
    for (Range r : walk.tiles(queries)) keys = {min(keys.first, r.first), max(keys.end, r.end)};
  }
  keys = keys & Range{0, end};
  return keys.empty() ? Range{} : keys;
}

// Whether any of `keys` may be visible to one of `queries`; keys lie between the first and the last that are.
template <class W>
__device__ __forceinline__ bool visits(const W& walk, Range queries, Range keys) {
  if constexpr (requires { walk.span(queries); }) {
    return true;
  } else {
    return !(first_from(walk.tiles(queries), keys.first) & keys).empty();
  }
}

template <class W>
__device__ __forceinline__ bool every(const W& walk, Range queries, Range keys) {
  if constexpr (requires { walk.every(queries, keys); }) {
    return walk.every(queries, keys);
  } else {
    return false;
  }
}

__device__ __forceinline__ Range leaf_keys(int leaf) { return {leaf * kLeafKeys, (leaf + 1) * kLeafKeys}; }

template <class S>
__device__ __forceinline__ float log2_score(const S& score, float dot, int query, int key) {
  return smaller(static_cast<float>(score(dot, query, key)) * kLog2E, kMostScore);
}

// 2^(x - reference) where reference is at least x; 0 if x is -infinity, even if both are.
__device__ __forceinline__ float weight(float x, float reference) {
  return exp2_fast(x - (reference == -kInfinity<float> ? 0.f : reference));
}

// The state (m, l) of a softmax in units of log2.
struct RunningSum {
  float m = -kInfinity<float>, l = 0;
};

// Over the four lanes that share a row.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace fourfold::cuda::sm90
