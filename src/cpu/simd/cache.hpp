// The KV cache's leaves (leaf.hpp): writing one position, and reading 16 numbers of any cache type.
// Lanes are keys in K and dimensions in V: no horizontal sums anywhere. Rows of keys only are read both ways.
#pragma once

#include "cpu/simd/leaf.hpp"

namespace fourfold::simd {
namespace {

// ---- sources: key(d, c) is keys 16c.. of dimension d; value(key, i) is dimensions 16i.. of a key; 16 of each
//
// A streaming source fetches what is read some 16 KB later: without that a core gets half of its share of the memory.
enum class Fetch {
  none,
  half,   // a large leaf: V while K is read (near_key), the next leaf's K while V is read (near_value)
  whole,  // a small one: all of the next leaf, in even steps while scores are made, turned into weights (near_query)
          // and values added: a pause of 100 ns would let the queue of misses run dry
};
inline constexpr std::size_t kSmallLeaf = 24 << 10;

// Steps of Fetch::whole through the next leaf.
template <Fetch kFetch>
struct Steps {
  Steps(KvShape, LeafLayout) {}
};
template <>
struct Steps<Fetch::whole> {
  int key, value;         // bytes for each dimension of a key, each 16 numbers of a value
  int queries, at_query;  // bytes for all queries, and where they begin
  int vectors;            // of a row of values

  [[gnu::always_inline]] Steps(KvShape shape, LeafLayout at) : vectors(at.v_row / 16) {
    const int bytes = static_cast<int>(at.bytes);
    queries = bytes / (shape.key + 32) * 32;  // a query's weights cost as much as 32 dimensions
    at_query = (bytes - queries) / 2;
    key = at_query / shape.key + 1;
    value = at_query / (kLeafKeys * vectors) + 1;
  }
};

// What both kinds of leaves share. kSize: bytes of a number.
template <Fetch kFetch, int kSize>
struct Streamed {
  const std::uint8_t *k, *v, *next;
  std::size_t v_row;  // bytes
  [[no_unique_address]] Steps<kFetch> steps;

  [[gnu::always_inline]] Streamed(const std::uint8_t* leaf, const std::uint8_t* next, KvShape shape, LeafLayout at)
      : k(leaf), v(leaf + at.v), next(next), v_row(static_cast<std::size_t>(at.v_row) * kSize), steps(shape, at) {}
  [[gnu::always_inline]] void near_key(int d) const {
    if constexpr (kFetch == Fetch::half) prefetch(v + d * kLeafKeys * kSize, kLeafKeys * kSize);
    if constexpr (kFetch == Fetch::whole) prefetch(next + d * steps.key, kLeafKeys * kSize);
  }
  [[gnu::always_inline]] void near_query(int i, int n) const {
    if constexpr (kFetch == Fetch::whole) prefetch(next + steps.at_query + steps.queries / n * i, steps.queries / n);
  }
  [[gnu::always_inline]] void near_value(int key, int i, int n) const {
    if constexpr (kFetch == Fetch::half) prefetch(next + key * v_row + 16 * i * kSize, 16 * n * kSize);
    if constexpr (kFetch == Fetch::whole)
      prefetch(next + steps.at_query + steps.queries + (key * steps.vectors + i) * steps.value, 16 * n * kSize);
  }
};

template <Storage kType>
inline constexpr int kNumberBytes = kType == Storage::f32    ? 4
                                    : kType == Storage::q8_0 ? 1
                                                             : 2;

template <class V, Storage kType, Fetch kFetch>
struct LeafSource : Streamed<kFetch, kNumberBytes<kType>> {
  static constexpr int kSize = kNumberBytes<kType>;
  [[gnu::always_inline]] LeafSource(const std::uint8_t* leaf, const std::uint8_t* next, KvShape shape)
      : Streamed<kFetch, kSize>(leaf, next, shape, leaf_layout(kType, shape)) {}
  [[gnu::always_inline]] typename V::F key(int d, int c) const {
    return read(this->k + (d * kLeafKeys + 16 * c) * kSize);
  }
  [[gnu::always_inline]] typename V::F value(int key, int i) const {
    return read(this->v + key * this->v_row + 16 * i * kSize);
  }

 private:
  FOURFOLD_INLINE typename V::F read(const std::uint8_t* p) {
    if constexpr (kType == Storage::f32)
      return V::load(reinterpret_cast<const float*>(p));
    else if constexpr (kType == Storage::f16)
      return V::load_f16(p);
    else
      return V::load_bf16(p);
  }
};

template <class V, Fetch kFetch>
struct LeafSource<V, Storage::q8_0, kFetch> : Streamed<kFetch, 1> {
  const std::uint8_t *k_scales, *v_scales;
  int d;  // of values
  [[gnu::always_inline]] LeafSource(const std::uint8_t* leaf, const std::uint8_t* next, KvShape shape)
      : Streamed<kFetch, 1>(leaf, next, shape, leaf_layout(Storage::q8_0, shape)), d(shape.value) {
    const LeafLayout at = leaf_layout(Storage::q8_0, shape);
    k_scales = leaf + at.k_scales;
    v_scales = leaf + at.v_scales;
  }
  [[gnu::always_inline]] typename V::F key(int i, int c) const {
    return V::mul(V::load_s8(this->k + i * kLeafKeys + 16 * c),
                  V::load_f16(k_scales + 2 * (i / 32 * kLeafKeys + 16 * c)));
  }
  [[gnu::always_inline]] typename V::F value(int key, int i) const {
    return V::mul(V::load_s8(this->v + key * d + 16 * i), V::splat_f16(v_scales + 2 * (key * (d / 32) + i / 2)));
  }
};

// ---- appending -----------------------------------------------------------------------------------------------------

// 32 numbers as int8 with an f16 scale: q = x / scale, nearest even, for the scale as it was rounded.
template <class V>
FOURFOLD_INLINE void quantise_for_cache(const float* x, std::int8_t* q, std::uint8_t* scale) {
  const auto low = V::load(x), high = V::load(x + 16);
  const auto zero = V::zero();
  const auto magnitude = V::max(V::max(low, V::sub(zero, low)), V::max(high, V::sub(zero, high)));
  const float wanted = V::maximum(magnitude) / 127.0f;
  std::uint8_t rounded[32];
  V::store_f16(rounded, V::set(wanted < 65504.0f ? wanted : 65504.0f));
  __builtin_memcpy(scale, rounded, 2);
  float d[16];
  V::store(d, V::load_f16(rounded));
  const auto inverse = V::set(d[0] > 0 ? 1.0f / d[0] : 0.0f);
  const auto limit = V::set(127.0f), negative = V::set(-127.0f);
  V::store_s8(q, V::min(limit, V::max(negative, V::mul(low, inverse))));
  V::store_s8(q + 16, V::min(limit, V::max(negative, V::mul(high, inverse))));
}

// Row `slot` of [keys][d] numbers and [keys][d / 32] scales.
template <class V>
void append_q8_row(std::uint8_t* rows, std::uint8_t* scales, int slot, const float* x, int d) {
  for (int i = 0; i < d; i += 32) {
    std::int8_t q[32];
    quantise_for_cache<V>(x + i, q, scales + 2 * (slot * (d / 32) + i / 32));
    __builtin_memcpy(rows + slot * d + i, q, 32);
  }
}

template <class V>
void append_q8(std::uint8_t* leaf, int keys, int slot, const float* k, const float* v, KvShape shape) {
  const LeafLayout at = leaf_layout(Storage::q8_0, shape, keys);
  for (int i = 0; i < shape.key; i += 32) {
    std::int8_t q[32];
    quantise_for_cache<V>(k + i, q, leaf + at.k_scales + 2 * (i / 32 * keys + slot));
    for (int j = 0; j < 32; ++j) leaf[(i + j) * keys + slot] = static_cast<std::uint8_t>(q[j]);
  }
  append_q8_row<V>(leaf + at.v, leaf + at.v_scales, slot, v, shape.value);
}

template <class V>
FOURFOLD_INLINE void store_as_type(Storage type, std::uint8_t* p, typename V::F x) {
  if (type == Storage::f32)
    V::store(reinterpret_cast<float*>(p), x);
  else if (type == Storage::f16)
    V::store_f16(p, x);
  else
    V::store_bf16(p, x);
}

// Calls put(at, n, numbers) for each 16 of x[d] as the type stores them; zeros fill the last.
template <class V, class Put>
FOURFOLD_INLINE void each_stored(Storage type, const float* x, int d, Put put) {
  for (int i = 0; i < d; i += 16) {
    const int n = d - i < 16 ? d - i : 16;
    float numbers[16] = {};
    std::uint8_t stored[64];
    __builtin_memcpy(numbers, x + i, static_cast<std::size_t>(n) * sizeof(float));
    store_as_type<V>(type, stored, V::load(numbers));
    put(i, n, stored);
  }
}

template <class V>
void kv_append(Storage type, std::uint8_t* leaf, int keys, int slot, const float* k, const float* v, KvShape shape) {
  const LeafLayout at = leaf_layout(type, shape, keys);
  const std::size_t size = at.size;
  const auto row = [&](std::uint8_t* rows, const float* x, int d) {
    each_stored<V>(type, x, d, [&](int i, int, const std::uint8_t* stored) {
      __builtin_memcpy(rows + static_cast<std::size_t>(slot * at.v_row + i) * size, stored, 16 * size);
    });
  };
  if (type == Storage::q8_0)
    return shape.keys_only ? append_q8_row<V>(leaf, leaf + at.k_scales, slot, k, shape.key)
                           : append_q8<V>(leaf, keys, slot, k, v, shape);
  if (shape.keys_only) return row(leaf, k, shape.key);
  each_stored<V>(type, k, shape.key, [&](int i, int n, const std::uint8_t* stored) {
    for (int j = 0; j < n; ++j)
      __builtin_memcpy(leaf + static_cast<std::size_t>((i + j) * keys + slot) * size,
                       stored + static_cast<std::size_t>(j) * size, size);
  });
  row(leaf + at.v, v, shape.value);
}

}  // namespace
}  // namespace fourfold::simd
