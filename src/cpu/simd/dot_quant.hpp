// Dots of block storages with 15-bit activations, as two int8 dots. Limit: memory for one token, the int8 dot units for
// many.
//
// The chain of one output, always: for each 32 columns in order, the exact integer sum I, then
//   acc = fma(I, a * scale, acc); and for Form::minimum acc = fma(b, sum, acc); Form::halves does two sums of 16.
// One token: a tile streams through registers. Many: 512 columns of kRows tiles are unpacked once into a panel in L1,
// and kTokens tokens at a time pass over it, the float accumulators waiting in memory between panels.
#pragma once

#include "cpu/simd/kernels.hpp"
#include "cpu/simd/load.hpp"
#include "cpu/simd/tile.hpp"

namespace fourfold::simd {
namespace {

inline constexpr int kPanelSubs = 16;   // subs of 32 columns in a panel: 2 tiles x 16 x 640 B = 20 KB of L1
inline constexpr int kTokenChunk = 96;  // tokens per pass over the weights: their activations stay in L2
inline constexpr int kQuantBytes = static_cast<int>(sizeof(QuantBlock));
// How far ahead of the dot the weights are fetched: at 40 GB/s a core, 400 ns.
inline constexpr int kPrefetchBytes = 16384;

// Offsets in a QuantBlock.
inline constexpr int kLowAt = 32, kScaleAt = 64, kSumAt = 68, kBiasAt = 72, kHalfAt = 76;

template <class V>
FOURFOLD_INLINE typename V::F float_at(const std::uint8_t* x, int offset) {
  return V::set(load_as<float>(x + offset));
}
template <class V>
FOURFOLD_INLINE typename V::I int_at(const std::uint8_t* x, int offset) {
  return V::set_i(load_as<std::int32_t>(x + offset));
}

// Calls f.template operator()<S>() for S = 0..N-1.
template <int N, class Body, int S = 0>
FOURFOLD_INLINE void for_each_sub(Body&& body) {
  if constexpr (S < N) {
    body.template operator()<S>();
    for_each_sub<N, Body, S + 1>(static_cast<Body&&>(body));
  }
}

// One sub of `Rows` tiles by `Tokens` tokens. weight(r, g) gives u[g] of tile r.
template <class V, Form kForm, int Rows, int Tokens, class Weight>
FOURFOLD_INLINE void sub_step(typename V::F (&acc)[Rows][Tokens], const std::uint8_t* const (&x)[Tokens],
                              const Scales<V> (&scales)[Rows], Weight weight) {
  // 128 * (dot of the high bytes) + (dot of the low bytes): integers, so the order is free. One token has registers for
  // two sums; many tokens shift the first and add the second to it.
  constexpr int kSums = Tokens == 1 ? 2 : 1;
  typename V::I sum[kSums][Rows][Tokens];
  const auto dot_bytes = [&](typename V::I(&into)[Rows][Tokens], int at, int from, int to) {
    FOURFOLD_UNROLL for (int g = from; g < to; ++g) {
      typename V::I w[Rows];
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) w[r] = weight(r, g);
      FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) {
        const auto a = int_at<V>(x[t], at + 4 * g);
        FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) {
          if constexpr (kForm == Form::minimum)
            into[r][t] = V::dot_unsigned(into[r][t], w[r], a);
          else
            into[r][t] = V::dot_centred(into[r][t], w[r], a);
        }
      }
    }
  };
  const auto multiply = [&](int offset, int from, int to) {
    FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) {
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) sum[0][r][t] = V::zero_i();
    }
    dot_bytes(sum[0], 0, from, to);
    FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) {
      const auto bias = V::kBiased && kForm != Form::minimum ? int_at<V>(x[t], offset) : V::zero_i();
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) {
        const auto high = V::template shl<7>(sum[0][r][t]);
        if constexpr (kSums == 1) {
          sum[0][r][t] = V::add_i(high, bias);
        } else {
          sum[0][r][t] = high;
          sum[1][r][t] = bias;
        }
      }
    }
    dot_bytes(sum[kSums - 1], kLowAt, from, to);
    if constexpr (kSums == 2) {
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) sum[0][r][0] = V::add_i(sum[0][r][0], sum[1][r][0]);
    }
  };
  const auto accumulate = [&](auto scale_of) {
    FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) {
      const auto scale = float_at<V>(x[t], kScaleAt);
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) acc[r][t] =
          V::fma(V::to_float(sum[0][r][t]), V::mul(scale_of(scales[r]), scale), acc[r][t]);
    }
  };
  const auto first_scale = [](const Scales<V>& s) { return s.a; };
  if constexpr (kForm == Form::halves) {
    multiply(kHalfAt, 0, 4);
    accumulate(first_scale);
    multiply(kHalfAt + 4, 4, 8);
    accumulate([](const Scales<V>& s) { return s.b; });
  } else {
    multiply(kBiasAt, 0, 8);
    accumulate(first_scale);
  }
  if constexpr (kForm == Form::minimum) {
    FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) {
      const auto total = float_at<V>(x[t], kSumAt);
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) acc[r][t] = V::fma(scales[r].b, total, acc[r][t]);
    }
  }
}

// Writes 16 lanes, or the first `count` of them.
template <class V>
FOURFOLD_INLINE void store_rows(typename V::F x, float* out, int count) {
  if (count >= kTileRows) return V::store(out, x);
  alignas(64) float lanes[kTileRows];
  V::store(lanes, x);
  for (int r = 0; r < count; ++r) out[r] = lanes[r];
}

template <class V, class Load>
void dot_quant_one(const DotArgs& args) {
  const int blocks = args.k / (32 * Load::kSubs);
  const std::uint8_t* block = args.tiles;
  const std::int64_t bytes = std::int64_t{(args.rows + kTileRows - 1) / kTileRows} * blocks * Load::kBytes;
  // Faster than the misses that a core has in flight by itself.
  prefetch(block, bytes < kPrefetchBytes ? static_cast<int>(bytes) : kPrefetchBytes);
  for (int row = 0; row < args.rows; row += kTileRows) {
    const std::uint8_t* x = args.row(0);
    typename V::F acc[1][1] = {{V::zero()}};
    for (int b = 0; b < blocks; ++b, block += Load::kBytes) {
      prefetch(block + kPrefetchBytes, Load::kBytes);
      for_each_sub<Load::kSubs>([&]<int S>() {
        typename V::I u[8];
        Load::template quants<S>(block, u);
        const Scales<V> scales[1] = {Load::template scales<S>(block)};
        const std::uint8_t* const xs[1] = {x};
        sub_step<V, Load::kForm>(acc, xs, scales, [&](int, int g) { return u[g]; });
        x += kQuantBytes;
      });
    }
    store_rows<V>(acc[0][0], args.out + row, args.rows - row);
  }
}

// A panel: one tile's next kPanelSubs subs, unpacked. Per sub: eight vectors of bytes, then the two scale vectors.
struct Panel {
  static constexpr int kSubBytes = 8 * 64 + 2 * 64;
  alignas(64) std::uint8_t bytes[kPanelSubs * kSubBytes];
};

template <class V, class Load>
FOURFOLD_INLINE void fill_panel(const std::uint8_t* block, int subs, Panel& panel) {
  std::uint8_t* out = panel.bytes;
  for (int s = 0; s < subs; s += Load::kSubs, block += Load::kBytes) {
    prefetch(block + kPrefetchBytes, Load::kBytes);
    for_each_sub<Load::kSubs>([&]<int S>() {
      typename V::I u[8];
      Load::template quants<S>(block, u);
      FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) V::store_i(out + 64 * g, u[g]);
      const auto scales = Load::template scales<S>(block);
      V::store(reinterpret_cast<float*>(out + 512), scales.a);
      V::store(reinterpret_cast<float*>(out + 576), scales.b);
      out += Panel::kSubBytes;
    });
  }
}

// kTokens tokens over `subs` subs of kRows panels; acc[r] is [tokens][16], `chunk` tokens to the next row tile.
template <class V, Form kForm>
[[gnu::noinline]] void multiply_panels(const Panel* panels, int subs, const std::uint8_t* const (&tokens)[V::kTokens],
                                       float* partial, std::size_t row_stride) {
  constexpr int R = V::kRows, T = V::kTokens;
  typename V::F acc[R][T];
  const std::uint8_t* x[T];
  FOURFOLD_UNROLL for (int t = 0; t < T; ++t) {
    x[t] = tokens[t];
    FOURFOLD_UNROLL for (int r = 0; r < R; ++r) acc[r][t] = V::load(partial + r * row_stride + kTileRows * t);
  }
  const std::uint8_t* w = panels->bytes;
  for (int s = 0; s < subs; ++s, w += Panel::kSubBytes) {
    Scales<V> scales[R];
    FOURFOLD_UNROLL for (int r = 0; r < R; ++r) {
      const auto* at = reinterpret_cast<const float*>(w + r * sizeof(Panel) + 512);
      scales[r] = {V::load(at), V::load(at + 16)};
    }
    sub_step<V, kForm>(acc, x, scales, [&](int r, int g) { return V::load_i(w + r * sizeof(Panel) + 64 * g); });
    FOURFOLD_UNROLL for (int t = 0; t < T; ++t) x[t] += kQuantBytes;
  }
  FOURFOLD_UNROLL for (int t = 0; t < T; ++t) {
    FOURFOLD_UNROLL for (int r = 0; r < R; ++r) V::store(partial + r * row_stride + kTileRows * t, acc[r][t]);
  }
}

// Subs per panel when `subs` are spread evenly, in whole blocks of kBlock subs.
template <int kBlock>
FOURFOLD_INLINE int panel_share(int subs) {
  const int blocks = subs / kBlock, most = kPanelSubs / kBlock, panels = (blocks + most - 1) / most;
  return (blocks + panels - 1) / panels * kBlock;
}

// Up to kTokenChunk tokens by kRows tiles (the first one again where fewer are left; only `rows` are written).
template <class V, class Load>
void dot_quant_tiles(const DotArgs& args, int token, int tokens, const std::uint8_t* const (&tiles)[V::kRows],
                     int row) {
  constexpr int R = V::kRows, T = V::kTokens;
  constexpr int kPadded = (kTokenChunk + T - 1) / T * T;
  alignas(64) float partial[R][kPadded][kTileRows];
  for (auto& row_tile : partial) __builtin_memset(row_tile, 0, (tokens + T - 1) / T * T * sizeof row_tile[0]);
  const int subs = args.k / 32, share = panel_share<Load::kSubs>(subs);
  for (int s = 0; s < subs; s += share) {
    const int count = subs - s < share ? subs - s : share;
    Panel panels[R];
    for (int r = 0; r < R; ++r) fill_panel<V, Load>(tiles[r] + s / Load::kSubs * Load::kBytes, count, panels[r]);
    for (int t = 0; t < tokens; t += T) {
      const std::uint8_t* group[T];
      for (int i = 0; i < T; ++i) {
        const int at = t + i < tokens ? t + i : tokens - 1;
        group[i] = args.row(token + at) + static_cast<std::size_t>(s) * kQuantBytes;
      }
      multiply_panels<V, Load::kForm>(panels, count, group, partial[0][t], kPadded * kTileRows);
    }
  }
  for (int r = 0; r < R && row + r * kTileRows < args.rows; ++r) {
    float* out = args.out + token * args.out_stride + row + r * kTileRows;
    for (int t = 0; t < tokens; ++t)
      store_rows<V>(V::load(partial[r][t]), out + t * args.out_stride, args.rows - row - r * kTileRows);
  }
}

template <class V, class Load>
void dot_quant(const DotArgs& args) {
  if (args.tokens == 1) return dot_quant_one<V, Load>(args);
  const std::size_t tile = static_cast<std::size_t>(args.k / (32 * Load::kSubs)) * Load::kBytes;
  for (int token = 0; token < args.tokens; token += kTokenChunk) {
    const int tokens = args.tokens - token < kTokenChunk ? args.tokens - token : kTokenChunk;
    for (int row = 0; row < args.rows; row += V::kRows * kTileRows) {
      const std::uint8_t* tiles[V::kRows];
      for (int r = 0; r < V::kRows; ++r)
        tiles[r] = args.tiles + (row / kTileRows + (row + r * kTileRows < args.rows ? r : 0)) * tile;
      dot_quant_tiles<V, Load>(args, token, tokens, tiles, row);
    }
  }
}

}  // namespace
}  // namespace fourfold::simd
