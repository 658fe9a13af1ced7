// Scan kernels: the recurrence in strips of columns, and chunks in the WY form (Kimi Linear 2025, section 3; with the
// decays between two tokens as products of those in between, never quotients).
//
// Token i reads the state before it twice: z_i = S^T r_i and o_i = S^T p_i, where r_i is the key or a, and p_i the
// query, each times the token's own decays where it acts behind them. It then adds its sources to the decayed state:
//   S <- D_i S + k_i y_i^T (+ b_i z_i^T for pairs),   y_i = write_i v_i - erase_i z_i (pairs: erase_i is in r_i)
//   out_i = o_i + (q_i . k_i) y_i (+ (q_i . b_i) z_i), or o_i + bonus_i v_i when the old state is read.
// Memory: S [keys, values] in place for steps; for chunks copied once into panels of 64 columns. Multiply-adds bind.
#pragma once

#include <fourfold/scan_kernel.hpp>

#include "cpu/simd/inline.hpp"

namespace fourfold::simd {
namespace {

// One lane where a vector would be: columns beyond the last whole vector.
struct OneLane {
  using F = float;
  static constexpr int kLanes = 1;
  FOURFOLD_INLINE F zero() { return 0; }
  FOURFOLD_INLINE F set(float x) { return x; }
  FOURFOLD_INLINE F load(const float* p) { return *p; }
  FOURFOLD_INLINE void store(float* p, F x) { *p = x; }
  FOURFOLD_INLINE F fma(F a, F b, F c) { return __builtin_fmaf(a, b, c); }
  FOURFOLD_INLINE F add(F a, F b) { return a + b; }
  FOURFOLD_INLINE F sub(F a, F b) { return a - b; }
  FOURFOLD_INLINE F mul(F a, F b) { return a * b; }
};
template <class V>
struct Lanes : V {
  static constexpr int kLanes = 16;
};

// out[i] = x[i] (* alpha * gate[i])
template <class V>
FOURFOLD_INLINE void decayed(const float* x, float alpha, const float* gate, int n, float* out) {
  const auto a = V::set(alpha);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    auto v = V::mul(V::load(x + i), a);
    if (gate) v = V::mul(v, V::load(gate + i));
    V::store(out + i, v);
  }
  for (; i < n; ++i) out[i] = gate ? x[i] * alpha * gate[i] : x[i] * alpha;
}

template <class V>
FOURFOLD_INLINE float scan_dot(const float* a, const float* b, int n) {
  auto sum = V::zero();
  int i = 0;
  for (; i + 16 <= n; i += 16) sum = V::fma(V::load(a + i), V::load(b + i), sum);
  float total = V::sum(sum);
  for (; i < n; ++i) total = __builtin_fmaf(a[i], b[i], total);
  return total;
}

// The vectors r and p of a token, and its products with its own sources.
struct Reads {
  float *r, *p;
  float own_key, own_b;
};
template <class V>
FOURFOLD_INLINE void prepare_reads(const ScanRun& run, const ScanToken& t, Reads& out) {
  const float* const gate = run.gated ? t.gate : nullptr;
  if (run.erase == Erase::own_key) decayed<V>(t.k, t.decay, gate, run.keys, out.r);
  if (run.erase == Erase::pair) decayed<V>(t.a, t.erase, nullptr, run.keys, out.r);
  if (run.read_before) {
    decayed<V>(t.q, 1, nullptr, run.keys, out.p);
    return;
  }
  decayed<V>(t.q, t.decay, gate, run.keys, out.p);
  out.own_key = scan_dot<V>(t.q, t.k, run.keys);
  if (run.erase == Erase::pair) out.own_b = scan_dot<V>(t.q, t.b, run.keys);
}

// y and the output of a token from what it read.
template <class V>
FOURFOLD_INLINE typename V::F source_of(const ScanRun& run, const ScanToken& t, typename V::F v, typename V::F z) {
  const auto written = V::mul(V::set(t.write), v);
  return run.erase == Erase::own_key ? V::fma(V::set(-t.erase), z, written) : written;
}
template <class V>
FOURFOLD_INLINE typename V::F output_of(const ScanRun& run, const ScanToken& t, const Reads& reads, typename V::F o,
                                        typename V::F v, typename V::F y, typename V::F z) {
  if (run.read_before) return V::fma(V::set(t.bonus), v, o);
  if (run.erase == Erase::pair) o = V::fma(V::set(reads.own_b), z, o);
  return V::fma(V::set(reads.own_key), y, o);
}

// ---- steps ---------------------------------------------------------------------------------------------------------

// What a strip of N vectors of columns carries from token to token.
template <class L, int N>
struct Strip {
  typename L::F z[N], o[N];  // what the next token read
  typename L::F y[N];        // and its source
};

// One pass over the strip's rows: adds the sources of `last` (kUpdate) and reads for the next token (kRead), so that a
// token costs one load and one store of S.
template <class L, int N, bool kGated, Erase kErase, bool kUpdate, bool kRead>
FOURFOLD_INLINE void sweep(const ScanRun& run, float* s, const ScanToken* last, const Reads& reads,
                           Strip<L, N>& strip) {
  using F = typename L::F;
  const float* const gate = kUpdate && kGated ? last->gate : nullptr;
  const float* const key = kUpdate ? last->k : nullptr;
  const float* const b = kUpdate && kErase == Erase::pair ? last->b : nullptr;
  const float decay = kUpdate ? last->decay : 1;
  F y[N], z[N], zs[N], os[N];
  FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
    if constexpr (kUpdate) y[n] = strip.y[n], z[n] = strip.z[n];
    zs[n] = os[n] = L::zero();
  }
  for (int i = 0; i < run.keys; ++i, s += run.state_stride) {
    F x[N];
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) x[n] = L::load(s + n * L::kLanes);
    if constexpr (kUpdate) {
      const auto d = L::set(kGated ? decay * gate[i] : decay), k = L::set(key[i]);
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) x[n] = L::fma(k, y[n], L::mul(d, x[n]));
      if constexpr (kErase == Erase::pair) {
        const auto side = L::set(b[i]);
        FOURFOLD_UNROLL for (int n = 0; n < N; ++n) x[n] = L::fma(side, z[n], x[n]);
      }
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) L::store(s + n * L::kLanes, x[n]);
      // A line a row of what lies behind this state, most likely the next one: processors look ahead by themselves
      // while a state is read, but memory would idle while it is written. More lines than these crowd out that reading.
      if constexpr (!kRead) __builtin_prefetch(run.state + run.keys * run.state_stride + 16 * i);
    }
    if constexpr (kRead) {
      if constexpr (kErase != Erase::none) {
        const auto r = L::set(reads.r[i]);
        FOURFOLD_UNROLL for (int n = 0; n < N; ++n) zs[n] = L::fma(r, x[n], zs[n]);
      }
      const auto p = L::set(reads.p[i]);
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) os[n] = L::fma(p, x[n], os[n]);
    }
  }
  FOURFOLD_UNROLL for (int n = 0; n < N; ++n) strip.z[n] = zs[n], strip.o[n] = os[n];
}

// The state's columns [column, column + N vectors) through all tokens.
template <class V, class L, int N, bool kGated, Erase kErase>
void steps_strip(const ScanRun& run, int column) {
  Strip<L, N> strip;
  FOURFOLD_UNROLL for (int n = 0; n < N; ++n) strip.y[n] = strip.z[n] = strip.o[n] = L::zero();
  Reads reads{run.scratch, run.scratch + run.keys, 0, 0};
  float* const s = run.state + column;
  for (int t = 0; t < run.count; ++t) {
    const ScanToken& token = run.tokens[t];
    prepare_reads<V>(run, token, reads);
    if (t == 0) {
      sweep<L, N, kGated, kErase, false, true>(run, s, nullptr, reads, strip);
    } else {
      sweep<L, N, kGated, kErase, true, true>(run, s, &token - 1, reads, strip);
    }
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
      const auto v = L::load(token.v + column + n * L::kLanes);
      strip.y[n] = source_of<L>(run, token, v, strip.z[n]);
      L::store(token.out + column + n * L::kLanes,
               output_of<L>(run, token, reads, strip.o[n], v, strip.y[n], strip.z[n]));
    }
  }
  sweep<L, N, kGated, kErase, true, false>(run, s, run.tokens + run.count - 1, reads, strip);
}

template <class V, bool kGated, Erase kErase>
void steps_of(const ScanRun& run) {
  constexpr int kWide = V::kScanColumns, kRow = V::kScanRow;
  int column = 0;
  if (run.count == 1)
    for (; column + 16 * kRow <= run.values; column += 16 * kRow)
      steps_strip<V, Lanes<V>, kRow, kGated, kErase>(run, column);
  for (; column + 16 * kWide <= run.values; column += 16 * kWide)
    steps_strip<V, Lanes<V>, kWide, kGated, kErase>(run, column);
  for (; column + 16 <= run.values; column += 16) steps_strip<V, Lanes<V>, 1, kGated, kErase>(run, column);
  for (; column < run.values; ++column) steps_strip<V, OneLane, 1, kGated, kErase>(run, column);
}

// f.operator()<gated, erase>() for the run's form.
template <class F>
FOURFOLD_INLINE void with_form(const ScanRun& run, F&& f) {
  const auto erase = [&]<bool kGated>() {
    if (run.erase == Erase::none) return f.template operator()<kGated, Erase::none>();
    if (run.erase == Erase::own_key) return f.template operator()<kGated, Erase::own_key>();
    return f.template operator()<kGated, Erase::pair>();
  };
  run.gated ? erase.template operator()<true>() : erase.template operator()<false>();
}

template <class V>
void scan_steps(const ScanRun& run) {
  if (run.count > 0) with_form(run, [&]<bool kGated, Erase kErase>() { steps_of<V, kGated, kErase>(run); });
}

}  // namespace
}  // namespace fourfold::simd
