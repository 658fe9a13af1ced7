// Dots with float weights: f32, f16, bf16, and every block storage decoded exactly (the --f32 mode).
// Limit: memory for one token, fma (or bf16 dot) units for many.
//
// A panel is a run of vectors, vector j holding column j of 16 rows as floats (or, for bf16 dots, columns 2j and 2j +
// 1). The chain of one output, always: even and odd vectors each accumulate in order; the result is even + odd.
#pragma once

#include "cpu/simd/dot_quant.hpp"

namespace fourfold::simd {
namespace {

inline constexpr int kPanelVectors = 128;  // per tile: 8 KB; a multiple of every block

// ---- panels: fill(tile, j, n, out) returns vectors j..j+n-1 of a tile, in place or written to out ------------------

template <class V>
struct F32Panel {
  static constexpr int kVectorBytes = 64;
  FOURFOLD_INLINE typename V::I vector(const std::uint8_t* p) { return V::load_i(p); }
  FOURFOLD_INLINE const std::uint8_t* fill(const std::uint8_t* tile, int j, int, std::uint8_t*) {
    return tile + static_cast<std::size_t>(j) * 64;
  }
};

template <class V>
struct F16Panel {
  static constexpr int kVectorBytes = 32;
  FOURFOLD_INLINE typename V::I vector(const std::uint8_t* p) { return V::as_int(V::load_f16(p)); }
  FOURFOLD_INLINE const std::uint8_t* fill(const std::uint8_t* tile, int j, int n, std::uint8_t* out) {
    const std::uint8_t* in = tile + static_cast<std::size_t>(j) * 32;
    for (int i = 0; i < n; ++i) V::store_i(out + 64 * i, vector(in + 32 * i));
    return out;
  }
};

template <class V>
struct Bf16Panel {  // a tile holds pairs of columns: the even one in the low half of each lane
  FOURFOLD_INLINE const std::uint8_t* fill(const std::uint8_t* tile, int j, int n, std::uint8_t* out) {
    const auto odd = V::set_i(static_cast<int>(0xffff0000));
    for (int i = 0; i < n; i += 2) {  // an odd count writes one vector more, which nobody reads
      const std::uint8_t* in = tile + static_cast<std::size_t>(j + i) * 32;
      prefetch(in + kPrefetchBytes, 64);
      const auto pair = V::load_i(in);
      V::store_i(out + 64 * i, V::template shl<16>(pair));
      V::store_i(out + 64 * i + 64, V::and_i(pair, odd));
    }
    return out;
  }
};

// Byte B of each lane of u, as the weight it stands for.
template <class V, Form kForm, int B>
FOURFOLD_INLINE typename V::F decode(typename V::I u, typename V::F a, typename V::F b) {
  const auto byte = V::and_i(V::template shr<8 * B>(u), V::set_i(255));
  if constexpr (kForm == Form::minimum)
    return V::fma(V::to_float(byte), a, b);
  else
    return V::mul(V::to_float(V::add_i(byte, V::set_i(-128))), a);
}

template <class V, class Load>
struct QuantPanel {
  FOURFOLD_INLINE const std::uint8_t* fill(const std::uint8_t* tile, int j, int n, std::uint8_t* out) {
    constexpr int kColumns = 32 * Load::kSubs;
    // A K-quant's block is larger than a panel: the panel takes some of its subs.
    for (int i = 0; i < n; i += 32) {
      const std::uint8_t* block = tile + static_cast<std::size_t>((j + i) / kColumns) * Load::kBytes;
      const int sub = (j + i) % kColumns / 32;
      if (sub == 0) prefetch(block + kPrefetchBytes, Load::kBytes);
      for_each_sub<Load::kSubs>([&]<int S>() {
        if (S == sub) decode_sub<S>(block, reinterpret_cast<float*>(out + 64 * i));
      });
    }
    return out;
  }

 private:
  template <int S>
  FOURFOLD_INLINE void decode_sub(const std::uint8_t* block, float* out) {
    typename V::I u[8];
    Load::template quants<S>(block, u);
    const auto scales = Load::template scales<S>(block);
    FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) {
      const auto a = Load::kForm == Form::halves && g >= 4 ? scales.b : scales.a;
      V::store(out + 64 * g, decode<V, Load::kForm, 0>(u[g], a, scales.b));
      V::store(out + 64 * g + 16, decode<V, Load::kForm, 1>(u[g], a, scales.b));
      V::store(out + 64 * g + 32, decode<V, Load::kForm, 2>(u[g], a, scales.b));
      V::store(out + 64 * g + 48, decode<V, Load::kForm, 3>(u[g], a, scales.b));
    }
  }
};

template <class V>
struct RawPanel {  // bf16 pairs as they lie
  static constexpr int kVectorBytes = 64;
  FOURFOLD_INLINE typename V::I vector(const std::uint8_t* p) { return V::load_i(p); }
  FOURFOLD_INLINE const std::uint8_t* fill(const std::uint8_t* tile, int j, int, std::uint8_t*) {
    return tile + static_cast<std::size_t>(j) * 64;
  }
};

// ---- products: a vector of weights by one broadcast activation of four bytes ---------------------------------------

template <class V>
struct Fma {
  static constexpr int kColumns = 1;
  FOURFOLD_INLINE typename V::F step(typename V::F acc, typename V::I w, typename V::I x) {
    return V::fma(V::as_float(w), V::as_float(x), acc);
  }
};

template <class V>
struct Bf16Pair {
  static constexpr int kColumns = 2;
  FOURFOLD_INLINE typename V::F step(typename V::F acc, typename V::I w, typename V::I x) {
    return V::dot_bf16(acc, w, x);
  }
};

// ---- the tiles -----------------------------------------------------------------------------------------------------

// `n` vectors of Rows panels by Tokens tokens; partial is [Rows][2 chains][Padded tokens][16].
template <class V, class Product, int Rows, int Tokens, int Padded>
[[gnu::noinline]] void multiply_vectors(const std::uint8_t* const (&w)[Rows],
                                        const std::uint8_t* const (&tokens)[Tokens], int n, float* partial) {
  const auto at = [=](int c, int r, int t) { return partial + ((2 * r + c) * Padded + t) * kTileRows; };
  typename V::F acc[2][Rows][Tokens];
  const std::uint8_t *x[Tokens], *panel[Rows];
  FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) x[t] = tokens[t];
  FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) panel[r] = w[r];
  const auto each = [&](auto body) {
    FOURFOLD_UNROLL for (int c = 0; c < 2; ++c) {
      FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) { FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) body(c, r, t); }
    }
  };
  each([&](int c, int r, int t) { acc[c][r][t] = V::load(at(c, r, t)); });
  const auto step = [&](int c, std::size_t j) {
    FOURFOLD_UNROLL for (int t = 0; t < Tokens; ++t) {
      const auto a = int_at<V>(x[t], static_cast<int>(4 * j));
      FOURFOLD_UNROLL for (int r = 0; r < Rows; ++r) acc[c][r][t] =
          Product::step(acc[c][r][t], V::load_i(panel[r] + 64 * j), a);
    }
  };
  std::size_t j = 0;
  for (; j + 2 <= static_cast<std::size_t>(n); j += 2) {
    step(0, j);
    step(1, j + 1);
  }
  if (n % 2) step(0, j);
  each([&](int c, int r, int t) { V::store(at(c, r, t), acc[c][r][t]); });
}

// Up to `Padded` tokens by Rows tiles of tile_bytes each.
template <class V, class Panel, class Product, int Rows, int Tokens, int Padded>
void dot_float_tiles(const DotArgs& args, int token, int tokens, const std::uint8_t* const (&tiles)[Rows], int row) {
  alignas(64) float partial[Rows][2][Padded][kTileRows];
  for (auto& tile : partial)
    for (auto& chain : tile) __builtin_memset(chain, 0, (tokens + Tokens - 1) / Tokens * Tokens * sizeof chain[0]);
  const int vectors = (args.k + Product::kColumns - 1) / Product::kColumns;
  for (int j = 0; j < vectors; j += kPanelVectors) {
    const int n = vectors - j < kPanelVectors ? vectors - j : kPanelVectors;
    alignas(64) std::uint8_t scratch[Rows][kPanelVectors * 64];
    const std::uint8_t* panels[Rows];
    for (int r = 0; r < Rows; ++r) panels[r] = Panel::fill(tiles[r], j, n, scratch[r]);
    for (int t = 0; t < tokens; t += Tokens) {
      const std::uint8_t* group[Tokens];
      for (int i = 0; i < Tokens; ++i)
        group[i] = args.row(token + (t + i < tokens ? t + i : tokens - 1)) + static_cast<std::size_t>(j) * 4;
      multiply_vectors<V, Product, Rows, Tokens, Padded>(panels, group, n, partial[0][0][t]);
    }
  }
  for (int r = 0; r < Rows && row + r * kTileRows < args.rows; ++r) {
    float* out = args.out + token * args.out_stride + row + r * kTileRows;
    for (int t = 0; t < tokens; ++t)
      store_rows<V>(V::add(V::load(partial[r][0][t]), V::load(partial[r][1][t])), out + t * args.out_stride,
                    args.rows - row - r * kTileRows);
  }
}

// One token. Panels whose vectors lie in the tile are multiplied from there, the others after decoding a run of 32.
template <class V, class Panel, class Product>
void dot_float_one(const DotArgs& args, std::size_t tile_size) {
  constexpr bool kDirect = requires { Panel::kVectorBytes; };
  constexpr int kRun = kDirect ? kPanelVectors : 32;
  const int vectors = (args.k + Product::kColumns - 1) / Product::kColumns;
  const std::uint8_t* x = args.row(0);
  const std::uint8_t* tile = args.tiles;
  for (int row = 0; row < args.rows; row += kTileRows, tile += tile_size) {
    typename V::F acc[2] = {V::zero(), V::zero()};
    for (int j = 0; j < vectors; j += kRun) {
      const int n = vectors - j < kRun ? vectors - j : kRun;
      if constexpr (kDirect) {
        const std::uint8_t* w = tile + static_cast<std::size_t>(j) * Panel::kVectorBytes;
        for (int i = 0; i < n; i += 2, w += 2 * Panel::kVectorBytes) {
          prefetch(w + kPrefetchBytes, 2 * Panel::kVectorBytes);
          acc[0] = Product::step(acc[0], Panel::vector(w), int_at<V>(x, 4 * (j + i)));
          if (i + 1 < n)
            acc[1] = Product::step(acc[1], Panel::vector(w + Panel::kVectorBytes), int_at<V>(x, 4 * (j + i + 1)));
        }
      } else {
        alignas(64) std::uint8_t run[kRun * 64];
        const std::uint8_t* w = Panel::fill(tile, j, n, run);
        for (int i = 0; i < n; ++i)
          acc[i % 2] = Product::step(acc[i % 2], V::load_i(w + 64 * i), int_at<V>(x, 4 * (j + i)));
      }
    }
    store_rows<V>(V::add(acc[0], acc[1]), args.out + row, args.rows - row);
  }
}

// kBlockColumns columns of a tile take kBlockBytes.
template <class V, class Panel, class Product, int kBlockColumns, int kBlockBytes>
void dot_float(const DotArgs& args) {
  constexpr int R = V::kFloatRows, T = V::kFloatTokens, kPadded = (96 + T - 1) / T * T;
  const std::size_t tile = static_cast<std::size_t>((args.k + kBlockColumns - 1) / kBlockColumns) * kBlockBytes;
  if (args.tokens == 1) return dot_float_one<V, Panel, Product>(args, tile);
  for (int token = 0; token < args.tokens; token += kPadded) {
    const int tokens = args.tokens - token < kPadded ? args.tokens - token : kPadded;
    for (int row = 0; row < args.rows; row += R * kTileRows) {
      const std::uint8_t* tiles[R];
      for (int r = 0; r < R; ++r)
        tiles[r] = args.tiles + (row / kTileRows + (row + r * kTileRows < args.rows ? r : 0)) * tile;
      dot_float_tiles<V, Panel, Product, R, T, kPadded>(args, token, tokens, tiles, row);
    }
  }
}

template <class V, class Load>
void dot_decoded(const DotArgs& args) {
  dot_float<V, QuantPanel<V, Load>, Fma<V>, 32 * Load::kSubs, Load::kBytes>(args);
}

}  // namespace
}  // namespace fourfold::simd
