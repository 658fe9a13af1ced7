// Chunks of 16 tokens in the WY form: what the tokens of a chunk read of each other are 16 x 16 products, so that S is
// read and written once per chunk and its multiply-adds run in register tiles.
//
// w(j, i) is the product of the decays of the tokens j + 1 .. i - 1. With z, o, y and the vectors r, p of
// scan_steps.hpp:
//   z_i = (w(-1, i) r_i)^T S + sum_{j < i} (r_i . w(j, i) k_j) y_j (+ (r_i . w(j, i) b_j) z_j)      solved forward
//   o_i the same with p_i            S <- w(-1, 16) S + sum_j (w(j, 16) k_j) y_j^T (+ (w(j, 16) b_j) z_j^T)
// Memory: S as panels [values / 64][keys][64]; rows of keys are padded with zeros to whole vectors. Multiply-adds bind:
// 6 keys values FLOP per token for S, 32 (keys + values) for the chunk's own products.
#pragma once

#include "cpu/simd/map.hpp"
#include "cpu/simd/scan_steps.hpp"

namespace fourfold::simd {
namespace {

inline constexpr int C = kScanChunk, W = kScanPanel;

struct Chunk {
  int stride, panels;
  float* state;     // [panels][keys][W]
  float* reads;     // [2][C] rows: r, p
  float* scaled;    // the same times w(-1, i)
  float* sources;   // [2][C] rows: k, b
  float* late;      // the same times w(j, 16)
  float* decays;    // [C] rows: each token's own
  float* whole;     // one row: w(-1, 16)
  float* after;     // one row: w(j, 16)
  float* product;   // [2 reads][2 sources][C][C]
  float* base;      // [2][C][W]: z and o as far as S alone makes them
  float* written;   // [2][C][W]: y, z
  float own[C][2];  // q . k and q . b of each token

  explicit Chunk(const ScanRun& run) : stride((run.keys + 15) / 16 * 16), panels((run.values + W - 1) / W) {
    float* at = run.scratch + (-(reinterpret_cast<std::uintptr_t>(run.scratch) / sizeof(float)) & 15);
    const auto take = [&](int floats) { return (at += floats) - floats; };
    state = take(panels * run.keys * W);
    reads = take(2 * C * stride), scaled = take(2 * C * stride);
    sources = take(2 * C * stride), late = take(2 * C * stride);
    decays = take(C * stride), whole = take(stride), after = take(stride);
    product = take(4 * C * C), base = take(2 * C * W), written = take(2 * C * W);
  }
  float* row(float* rows, int which, int i) const { return rows + (which * C + i) * stride; }
  float* products(int read, int source) const { return product + (read * 2 + source) * C * C; }
};

inline void fill_row(const float* from, int keys, int stride, float* to) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(keys) * sizeof(float));
  for (int i = keys; i < stride; ++i) to[i] = 0;
}

// out = x * y over n, a multiple of 16
template <class V>
FOURFOLD_INLINE void times(const float* x, const float* y, int n, float* out) {
  for (int i = 0; i < n; i += 16) V::store(out + i, V::mul(V::load(x + i), V::load(y + i)));
}

// A product of decays, walked over the tokens: a number, or a row of them when gated.
template <class V, bool kGated>
struct Decays {
  const Chunk& c;
  float* row;  // gated
  float w = 1;

  Decays(const Chunk& c, float* row) : c(c), row(row) {
    if constexpr (kGated)
      for (int k = 0; k < c.stride; k += 16) V::store(row + k, V::set(1));
  }
  // out = x times the product so far
  [[gnu::always_inline]] inline void apply(const float* x, float* out) const {
    for (int k = 0; k < c.stride; k += 16)
      V::store(out + k, V::mul(V::load(x + k), kGated ? V::load(row + k) : V::set(w)));
  }
  [[gnu::always_inline]] inline void take(const ScanToken& token, int i) {
    w *= token.decay;
    if constexpr (kGated) times<V>(row, c.decays + i * c.stride, c.stride, row);
  }
  void finish() {
    if constexpr (!kGated)
      for (int k = 0; k < c.stride; k += 16) V::store(row + k, V::set(w));
  }
};

// The rows of a chunk: reads and sources, as they are and times the decays from the chunk's start and to its end.
template <class V, bool kGated, Erase kErase>
void fill_rows(const ScanRun& run, const ScanToken* tokens, Chunk& c) {
  constexpr bool kErases = kErase != Erase::none, kPair = kErase == Erase::pair;
  Decays<V, kGated> before(c, c.whole);
  for (int i = 0; i < C; ++i) {
    const ScanToken& token = tokens[i];
    Reads reads{c.row(c.reads, 0, i), c.row(c.reads, 1, i), 0, 0};
    prepare_reads<V>(run, token, reads);
    c.own[i][0] = reads.own_key, c.own[i][1] = reads.own_b;
    for (int k = run.keys; k < c.stride; ++k) reads.r[k] = reads.p[k] = 0;
    fill_row(token.k, run.keys, c.stride, c.row(c.sources, 0, i));
    if constexpr (kPair) fill_row(token.b, run.keys, c.stride, c.row(c.sources, 1, i));
    if constexpr (kGated) {
      float* const decays = c.decays + i * c.stride;
      decayed<V>(token.gate, token.decay, nullptr, run.keys, decays);
      for (int k = run.keys; k < c.stride; ++k) decays[k] = 0;
    }
    if constexpr (kErases) before.apply(reads.r, c.row(c.scaled, 0, i));
    before.apply(reads.p, c.row(c.scaled, 1, i));
    before.take(token, i);
  }
  before.finish();
  Decays<V, kGated> after(c, c.after);
  for (int j = C - 1; j >= 0; --j) {
    after.apply(c.row(c.sources, 0, j), c.row(c.late, 0, j));
    if constexpr (kPair) after.apply(c.row(c.sources, 1, j), c.row(c.late, 1, j));
    after.take(tokens[j], j);
  }
}

// product[i][j] += read_i . w(j, i) source_j over N vectors of channels, for all j < i.
template <class V, int N, bool kGated, bool kErases>
void pair_products(const ScanToken* tokens, const Chunk& c, int channel, int source) {
  for (int j = 0; j + 1 < C; ++j) {
    const float* const from = c.row(c.sources, source, j) + channel;
    typename V::F x[N];
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) x[n] = V::load(from + 16 * n);
    float w = 1;
    for (int i = j + 1; i < C; ++i) {
      const auto read = [&](int which) __attribute__((always_inline)) {
        const float* const r = c.row(c.reads, which, i) + channel;
        auto sum = V::mul(V::load(r), x[0]);
        FOURFOLD_UNROLL for (int n = 1; n < N; ++n) sum = V::fma(V::load(r + 16 * n), x[n], sum);
        c.products(which, source)[i * C + j] += w * V::sum(sum);
      };
      if constexpr (kErases) read(0);
      read(1);
      if constexpr (kGated) {
        const float* const d = c.decays + i * c.stride + channel;
        FOURFOLD_UNROLL for (int n = 0; n < N; ++n) x[n] = V::mul(x[n], V::load(d + 16 * n));
      } else {
        w *= tokens[i].decay;
      }
    }
  }
}

template <class V, bool kGated, Erase kErase>
void all_products(const ScanToken* tokens, const Chunk& c) {
  constexpr int kWide = 2 * V::kScanColumns;
  constexpr bool kErases = kErase != Erase::none;
  for (int i = 0; i < 4 * C * C; ++i) c.product[i] = 0;
  for (int source = 0; source < (kErase == Erase::pair ? 2 : 1); ++source) {
    int k = 0;
    for (; k + 16 * kWide <= c.stride; k += 16 * kWide) pair_products<V, kWide, kGated, kErases>(tokens, c, k, source);
    for (; k < c.stride; k += 16) pair_products<V, 1, kGated, kErases>(tokens, c, k, source);
  }
}

// base[row] = scaled[row] S for a register tile of R rows and N vectors of columns.
template <class V, int R, int N>
void read_state(const Chunk& c, const float* s, int keys, const float* scaled, float* base) {
  typename V::F sum[R][N];
  FOURFOLD_UNROLL for (int r = 0; r < R; ++r) FOURFOLD_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = V::zero();
  for (int k = 0; k < keys; ++k, s += W) {
    typename V::F row[N];
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) row[n] = V::load(s + 16 * n);
    FOURFOLD_UNROLL for (int r = 0; r < R; ++r) {
      const auto factor = V::set(scaled[r * c.stride + k]);
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = V::fma(factor, row[n], sum[r][n]);
    }
  }
  FOURFOLD_UNROLL for (int r = 0; r < R; ++r) FOURFOLD_UNROLL for (int n = 0; n < N; ++n)
      V::store(base + r * W + 16 * n, sum[r][n]);
}

// The tokens of a chunk in order, on N vectors of a panel's columns: z, y and out of each from those before it.
template <class V, int N, Erase kErase>
void solve(const ScanRun& run, const ScanToken* tokens, const Chunk& c, int column, int w) {
  constexpr bool kErases = kErase != Erase::none, kPair = kErase == Erase::pair;
  float* const y = c.written + w;
  float* const z = y + C * W;
  for (int i = 0; i < C; ++i) {
    typename V::F zs[N], os[N];
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
      zs[n] = kErases ? V::load(c.base + i * W + w + 16 * n) : V::zero();
      os[n] = V::load(c.base + (C + i) * W + w + 16 * n);
    }
    const auto take = [&](const float* from, int source, int j) __attribute__((always_inline)) {
      const auto p = V::set(c.products(1, source)[i * C + j]), r = V::set(c.products(0, source)[i * C + j]);
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
        const auto x = V::load(from + j * W + 16 * n);
        if constexpr (kErases) zs[n] = V::fma(r, x, zs[n]);
        os[n] = V::fma(p, x, os[n]);
      }
    };
    for (int j = 0; j < i; ++j) {
      take(y, 0, j);
      if constexpr (kPair) take(z, 1, j);
    }
    const Reads reads{nullptr, nullptr, c.own[i][0], c.own[i][1]};
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
      const int at = column + w + 16 * n, left = run.values - at;
      const auto v = load_some<V>(tokens[i].v + at, left);
      const auto made = source_of<V>(run, tokens[i], v, zs[n]);
      V::store(y + i * W + 16 * n, made);
      if constexpr (kPair) V::store(z + i * W + 16 * n, zs[n]);
      store_some<V>(tokens[i].out + at, left, output_of<V>(run, tokens[i], reads, os[n], v, made, zs[n]));
    }
  }
}

// The panel's state at the end of the chunk, rows [first, end) in register tiles of R rows and N vectors.
template <class V, int R, int N, bool kPair>
int write_state(const Chunk& c, float* panel, int first, int end) {
  for (; first + R <= end; first += R) {
    for (int w = 0; w < W; w += 16 * N) {
      typename V::F sum[R][N];
      FOURFOLD_UNROLL for (int r = 0; r < R; ++r) FOURFOLD_UNROLL for (int n = 0; n < N; ++n) sum[r][n] =
          V::mul(V::set(c.whole[first + r]), V::load(panel + (first + r) * W + w + 16 * n));
      for (int source = 0; source < (kPair ? 2 : 1); ++source) {
        const float* late = c.row(c.late, source, 0) + first;
        const float* from = c.written + source * C * W + w;
        for (int j = 0; j < C; ++j, late += c.stride, from += W) {
          typename V::F row[N];
          FOURFOLD_UNROLL for (int n = 0; n < N; ++n) row[n] = V::load(from + 16 * n);
          FOURFOLD_UNROLL for (int r = 0; r < R; ++r) {
            const auto factor = V::set(late[r]);
            FOURFOLD_UNROLL for (int n = 0; n < N; ++n) sum[r][n] = V::fma(factor, row[n], sum[r][n]);
          }
        }
      }
      FOURFOLD_UNROLL for (int r = 0; r < R; ++r) FOURFOLD_UNROLL for (int n = 0; n < N; ++n)
          V::store(panel + (first + r) * W + w + 16 * n, sum[r][n]);
    }
  }
  return first;
}

// What the next chunk's tokens bring: their rows lie a token apart, further than processors look ahead. Fetched a few
// lines at a time, since a processor has only so many requests under way.
template <bool kGated, Erase kErase>
struct NextTokens {
  const ScanRun& run;
  const ScanToken* tokens;  // null: there are none
  int parts;                // calls that share the work
  int fetched = 0, called = 0;

  void operator()() {
    for (const int end = C * ++called / parts; tokens && fetched < end; ++fetched) {
      const ScanToken& t = tokens[fetched];
      fetch(t.q, run.keys), fetch(t.k, run.keys), fetch(t.v, run.values);
      if constexpr (kGated) fetch(t.gate, run.keys);
      if constexpr (kErase == Erase::pair) fetch(t.a, run.keys), fetch(t.b, run.keys);
      for (int i = 0; i < run.values; i += 16) __builtin_prefetch(t.out + i, 1, 3);
    }
  }
  FOURFOLD_INLINE void fetch(const float* p, int n) {
    for (int i = 0; i < n; i += 16) __builtin_prefetch(p + i, 0, 3);
  }
};

template <class V, bool kGated, Erase kErase>
void run_chunk(const ScanRun& run, const ScanToken* tokens, bool more, Chunk& c) {
  constexpr int R = V::kScanRows, N = V::kScanColumns;
  constexpr bool kPair = kErase == Erase::pair;
  constexpr int kReads = kErase == Erase::none ? 1 : 2, kFirst = (2 - kReads) * C;
  fill_rows<V, kGated, kErase>(run, tokens, c);
  all_products<V, kGated, kErase>(tokens, c);
  NextTokens<kGated, kErase> next{run, more ? tokens + C : nullptr, c.panels * kReads * C / R};
  for (int p = 0; p < c.panels; ++p) {
    float* const panel = c.state + p * run.keys * W;
    for (int row = kFirst; row < 2 * C; row += R, next())
      for (int w = 0; w < W; w += 16 * N)
        read_state<V, R, N>(c, panel + w, run.keys, c.row(c.scaled, 0, row), c.base + row * W + w);
    for (int w = 0; w < W; w += 16 * N) solve<V, N, kErase>(run, tokens, c, p * W, w);
    const int done = write_state<V, R, N, kPair>(c, panel, 0, run.keys);
    write_state<V, 1, N, kPair>(c, panel, done, run.keys);
  }
}

// Between the state in place and its panels, whose columns beyond the last are zeros.
inline void to_panels(const ScanRun& run, const Chunk& c) {
  for (int p = 0; p < c.panels; ++p)
    for (int k = 0; k < run.keys; ++k) {
      const int count = run.values - p * W < W ? run.values - p * W : W;
      float* const to = c.state + (p * run.keys + k) * W;
      fill_row(run.state + k * run.state_stride + p * W, count, W, to);
    }
}
inline void from_panels(const ScanRun& run, const Chunk& c) {
  for (int p = 0; p < c.panels; ++p)
    for (int k = 0; k < run.keys; ++k) {
      const int count = run.values - p * W < W ? run.values - p * W : W;
      __builtin_memcpy(run.state + k * run.state_stride + p * W, c.state + (p * run.keys + k) * W,
                       static_cast<std::size_t>(count) * sizeof(float));
    }
}

template <class V, bool kGated, Erase kErase>
void chunks_of(const ScanRun& run) {
  const int whole = run.count / C * C;
  if (whole > 0) {
    Chunk chunk(run);
    to_panels(run, chunk);
    for (int t = 0; t < whole; t += C) run_chunk<V, kGated, kErase>(run, run.tokens + t, t + C < whole, chunk);
    from_panels(run, chunk);
  }
  ScanRun rest = run;
  rest.tokens += whole, rest.count -= whole;
  if (rest.count > 0) steps_of<V, kGated, kErase>(rest);
}

template <class V>
void scan_chunks(const ScanRun& run) {
  with_form(run, [&]<bool kGated, Erase kErase>() { chunks_of<V, kGated, kErase>(run); });
}

}  // namespace
}  // namespace fourfold::simd
