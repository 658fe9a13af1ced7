// The KV cache's leaves: where things lie, writing one position, and reading 16 numbers of any cache type.
// K is [D][64 keys] (lanes = keys), V is [64 keys][D padded to 16] (lanes = dimensions): no horizontal sums anywhere.
#pragma once

#include "cpu/simd/inline.hpp"
#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {
namespace {

// Byte offsets inside a leaf of head dimension d whose numbers take `size` bytes (q8_0: 1, and scales follow each
// part).
struct LeafLayout {
  std::size_t k_scales, v, v_scales, bytes;
  int v_row;  // numbers per V row
};

FOURFOLD_INLINE LeafLayout leaf_layout(Storage type, int d) {
  const int size = type == Storage::f32 ? 4 : type == Storage::q8_0 ? 1 : 2;
  const int padded = (d + 15) / 16 * 16;
  const auto scales = static_cast<std::size_t>(type == Storage::q8_0 ? kLeafKeys * (d / 32) * 2 : 0);
  const auto k = static_cast<std::size_t>(kLeafKeys) * d * size,
             v = static_cast<std::size_t>(kLeafKeys) * padded * size;
  return {k, k + scales, k + scales + v, k + scales + v + scales, padded};
}

// ---- sources: key(d, c) is keys 16c.. of dimension d; value(key, i) is dimensions 16i.. of a key; 16 of each
//
// A streaming source fetches ahead by half a leaf: V while K is read (near_key), the next leaf's K while V is read
// (near_value). Without that a core gets half of its share of the memory.

template <class V, Storage kType, bool kStream>
struct LeafSource {
  static constexpr int kSize = kType == Storage::f32 ? 4 : 2;
  const std::uint8_t *k, *v, *next;
  std::size_t v_row;
  [[gnu::always_inline]] LeafSource(const std::uint8_t* leaf, std::size_t stride, int d)
      : k(leaf), next(leaf + stride) {
    const LeafLayout at = leaf_layout(kType, d);
    v = leaf + at.v;
    v_row = static_cast<std::size_t>(at.v_row) * kSize;
  }
  [[gnu::always_inline]] void near_key(int d) const {
    if constexpr (kStream) prefetch(v + d * kLeafKeys * kSize, kLeafKeys * kSize);
  }
  [[gnu::always_inline]] void near_value(int key, int i, int n) const {
    if constexpr (kStream) prefetch(next + key * v_row + 16 * i * kSize, 16 * n * kSize);
  }
  [[gnu::always_inline]] typename V::F key(int d, int c) const { return read(k + (d * kLeafKeys + 16 * c) * kSize); }
  [[gnu::always_inline]] typename V::F value(int key, int i) const { return read(v + key * v_row + 16 * i * kSize); }

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

template <class V, bool kStream>
struct LeafSource<V, Storage::q8_0, kStream> {
  const std::uint8_t *k, *k_scales, *v, *v_scales, *next;
  int d;
  [[gnu::always_inline]] LeafSource(const std::uint8_t* leaf, std::size_t stride, int d)
      : k(leaf), next(leaf + stride), d(d) {
    const LeafLayout at = leaf_layout(Storage::q8_0, d);
    k_scales = leaf + at.k_scales;
    v = leaf + at.v;
    v_scales = leaf + at.v_scales;
  }
  [[gnu::always_inline]] void near_key(int i) const {
    if constexpr (kStream) prefetch(v + i * kLeafKeys, kLeafKeys);
  }
  [[gnu::always_inline]] void near_value(int key, int i, int n) const {
    if constexpr (kStream) prefetch(next + key * d + 16 * i, 16 * n);
  }
  [[gnu::always_inline]] typename V::F key(int i, int c) const {
    return V::mul(V::load_s8(k + i * kLeafKeys + 16 * c), V::load_f16(k_scales + 2 * (i / 32 * kLeafKeys + 16 * c)));
  }
  [[gnu::always_inline]] typename V::F value(int key, int i) const {
    return V::mul(V::load_s8(v + key * d + 16 * i), V::splat_f16(v_scales + 2 * (key * (d / 32) + i / 2)));
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

template <class V>
void append_q8(std::uint8_t* leaf, int slot, const float* k, const float* v, int d) {
  const LeafLayout at = leaf_layout(Storage::q8_0, d);
  for (int i = 0; i < d; i += 32) {
    std::int8_t q[32];
    quantise_for_cache<V>(k + i, q, leaf + at.k_scales + 2 * (i / 32 * kLeafKeys + slot));
    for (int j = 0; j < 32; ++j) leaf[(i + j) * kLeafKeys + slot] = static_cast<std::uint8_t>(q[j]);
    quantise_for_cache<V>(v + i, q, leaf + at.v_scales + 2 * (slot * (d / 32) + i / 32));
    __builtin_memcpy(leaf + at.v + slot * d + i, q, 32);
  }
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

template <class V>
void kv_append(Storage type, std::uint8_t* leaf, int slot, const float* k, const float* v, int d) {
  if (type == Storage::q8_0) return append_q8<V>(leaf, slot, k, v, d);
  const LeafLayout at = leaf_layout(type, d);
  const int size = type == Storage::f32 ? 4 : 2;
  for (int i = 0; i < d; i += 16) {
    const int n = d - i < 16 ? d - i : 16;
    float key[16] = {}, value[16] = {};
    __builtin_memcpy(key, k + i, static_cast<std::size_t>(n) * sizeof(float));
    __builtin_memcpy(value, v + i, static_cast<std::size_t>(n) * sizeof(float));
    std::uint8_t column[64];
    store_as_type<V>(type, column, V::load(key));
    for (int j = 0; j < n; ++j)
      __builtin_memcpy(leaf + static_cast<std::size_t>((i + j) * kLeafKeys + slot) * size, column + j * size,
                       static_cast<std::size_t>(size));
    store_as_type<V>(type, leaf + at.v + (static_cast<std::size_t>(slot) * at.v_row + i) * size, V::load(value));
  }
}

}  // namespace
}  // namespace fourfold::simd
