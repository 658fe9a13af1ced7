// Leaves of keys only: rows [64 keys][D padded to 16] whose first entries are also the values. A latent cache (MLA) is
// one: every query head reads the same rows, so a leaf is turned to floats once for all of them. Limit: fma units.
//
// The chain of one score: fma over the row's vectors in order, then the sum of the lanes by halves.
#pragma once

#include "cpu/simd/cache.hpp"

namespace fourfold::simd {
namespace {

// Rows of floats, as add_values reads them.
template <class V>
struct RowSource {
  const float* rows;
  int stride;  // D padded to 16

  FOURFOLD_INLINE void near_query(int, int) {}
  FOURFOLD_INLINE void near_value(int, int, int) {}
  [[gnu::always_inline]] typename V::F value(int key, int i) const { return V::load(rows + key * stride + 16 * i); }
};

// scores[i][key] = q_i . row for all 64 rows. Queries are padded with zeros like the rows.
template <class V, int N>
[[gnu::noinline]] void score_rows(const RowSource<V>& source, int d, const float* const* queries,
                                  float (*scores)[kLeafKeys]) {
  constexpr int C = V::kColumns;
  const int vectors = (d + 15) / 16;
  for (int key = 0; key < kLeafKeys; key += C) {
    typename V::F s[N][C];
    FOURFOLD_UNROLL for (int i = 0; i < N * C; ++i) s[i / C][i % C] = V::zero();
    for (int j = 0; j < vectors; ++j) {
      typename V::F k[C];
      FOURFOLD_UNROLL for (int x = 0; x < C; ++x) k[x] = source.value(key + x, j);
      FOURFOLD_UNROLL for (int i = 0; i < N; ++i) {
        const auto q = V::load(queries[i] + 16 * j);
        FOURFOLD_UNROLL for (int x = 0; x < C; ++x) s[i][x] = V::fma(q, k[x], s[i][x]);
      }
    }
    FOURFOLD_UNROLL for (int i = 0; i < N * C; ++i) scores[i / C][key + i % C] = V::sum(s[i / C][i % C]);
  }
}

// Copies stored rows into rows of floats.
template <class V, Storage kType>
void widen_rows(const std::uint8_t* leaf, KvShape shape, float* wide) {
  const LeafLayout at = leaf_layout(kType, shape);
  const int vectors = at.v_row / 16;
  for (int key = 0; key < kLeafKeys; ++key)
    for (int i = 0; i < vectors; ++i, wide += 16) {
      const std::size_t number = static_cast<std::size_t>(key) * static_cast<std::size_t>(at.v_row) + 16 * i;
      if constexpr (kType == Storage::f16)
        V::store(wide, V::load_f16(leaf + 2 * number));
      else if constexpr (kType == Storage::bf16)
        V::store(wide, V::load_bf16(leaf + 2 * number));
      else
        V::store(wide, V::mul(V::load_s8(leaf + number),
                              V::splat_f16(leaf + at.k_scales + 2 * (key * (shape.key / 32) + i / 2))));
    }
}

}  // namespace
}  // namespace fourfold::simd
