// Scans of one layer: 16 heads, d 128, float32 states.
// prefill/MECHANISM/FORM: 4096 tokens, operations (7 keys values a token and head) per second and their share of the
// float32 multiply-add peak, probed here in turns. decode/MECHANISM: one token through layers whose states exceed the
// caches, bytes (states read and written) per second and their share of the ceiling of an update in place.
#include <cmath>
#include <fourfold/mechanisms.hpp>
#include <fourfold/scan.hpp>
#include <random>

#include "cpu/aligned.hpp"
#include "cpu/simd/kernels.hpp"
#include "timing.hpp"

namespace fourfold {
namespace {

constexpr int kHeads = 16, kDim = 128, kTokens = 4096;

std::vector<float> normals(std::size_t n, float scale) {
  std::mt19937 engine(7);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> all(n);
  for (float& x : all) x = normal(engine);
  return all;
}

struct Layer {
  int tokens;
  std::vector<float> q, k, v, out, alpha, beta, gate;
  AlignedFloats states;

  Layer(int tokens, int slots) : tokens(tokens) {
    const std::size_t vectors = static_cast<std::size_t>(tokens) * kHeads;
    q = normals(vectors * kDim, 1), k = normals(vectors * kDim, 1 / std::sqrt(float(kDim)));
    v = normals(vectors * kDim, 1), out.resize(v.size());
    alpha.assign(vectors, 0.98f), beta.assign(vectors, 0.5f), gate.assign(vectors * kDim, 0.98f);
    states.assign(static_cast<std::size_t>(slots) * kHeads * kDim * kDim, 0.1f);
  }
  // Head `head` of the token t as the kernels take it.
  ScanToken token(int t, int head, bool gated) {
    const std::size_t vector = static_cast<std::size_t>(t) * kHeads + static_cast<std::size_t>(head),
                      at = vector * kDim;
    ScanToken token{
        .q = &q[at], .k = &k[at], .v = &v[at], .out = &out[at], .write = beta[vector], .erase = beta[vector]};
    if (gated) {
      token.gate = &gate[at];
    } else {
      token.decay = alpha[vector];
    }
    return token;
  }
  auto input() const {
    const auto heads = [&](const std::vector<float>& x) {
      return Heads{Rows<const float>{x.data(), tokens, kHeads * kDim}, kHeads};
    };
    return ScanTokens{heads(q),
                      heads(k),
                      heads(v),
                      Rows<const float>{alpha.data(), tokens, kHeads},
                      Rows<const float>{beta.data(), tokens, kHeads},
                      Rows<const float>{gate.data(), tokens, kHeads * kDim}};
  }
};

constexpr double kFlops = 7.0 * kDim * kDim * kHeads * kTokens;

// The kernels alone, one head a job.
void prefill(benchmark::State& state, bool gated, void (*kernel)(const ScanRun&)) {
  Layer layer(kTokens, 1);
  std::vector<ScanToken> tokens;
  for (int head = 0; head < kHeads; ++head)
    for (int t = 0; t < kTokens; ++t) tokens.push_back(layer.token(t, head, gated));
  std::vector<AlignedFloats> scratch(kHeads, AlignedFloats(scan_scratch_floats(kDim, kDim)));
  std::vector<double> seconds, peaks;
  for (auto _ : state) {
    seconds.push_back(seconds_of([&] {
      processors()(kHeads, [&](int head) {
        kernel({&tokens[static_cast<std::size_t>(head) * kTokens], kTokens, kDim, kDim,
                &layer.states[static_cast<std::size_t>(head) * kDim * kDim], kDim, gated, false, Erase::own_key,
                scratch[static_cast<std::size_t>(head)].data()});
      });
    }));
    peaks.push_back(multiply_add_peak());
  }
  report(state, seconds, peaks, kFlops, "flops");
}

// The recurrence strip-mined over value columns: each head's state as strips of kScanPanel columns that lie together
// and stay in L1 while all tokens pass.
void prefill_strips(benchmark::State& state, bool gated) {
  constexpr int kStrips = kDim / kScanPanel;
  Layer layer(kTokens, 1);
  std::vector<ScanToken> tokens;
  for (int job = 0; job < kHeads * kStrips; ++job)
    for (int t = 0; t < kTokens; ++t) {
      tokens.push_back(layer.token(t, job / kStrips, gated));
      tokens.back().v += job % kStrips * kScanPanel, tokens.back().out += job % kStrips * kScanPanel;
    }
  std::vector<AlignedFloats> scratch(kHeads * kStrips, AlignedFloats(scan_scratch_floats(kDim, kScanPanel)));
  std::vector<double> seconds, peaks;
  for (auto _ : state) {
    seconds.push_back(seconds_of([&] {
      processors()(kHeads * kStrips, [&](int job) {
        const auto at = static_cast<std::size_t>(job);
        scan_steps({&tokens[at * kTokens], kTokens, kDim, kScanPanel, &layer.states[at * kDim * kScanPanel], kScanPanel,
                    gated, false, Erase::own_key, scratch[at].data()});
      });
    }));
    peaks.push_back(multiply_add_peak());
  }
  report(state, seconds, peaks, kFlops, "flops");
}

const std::vector<float> kLogDecays(kHeads, -0.02f), kFactors(kHeads, 0.98f), kWeights(kHeads*kDim, 0.5f);

// The same as a user writes it.
template <class R>
void prefill_rule(benchmark::State& state, const R& rule) {
  Layer layer(kTokens, 1);
  std::vector<double> seconds, peaks;
  for (auto _ : state) {
    seconds.push_back(seconds_of([&] {
      const status s = Scan{rule}
                           .on(processors())
                           .run(layer.input(), Heads{Rows{layer.out.data(), kTokens, kHeads * kDim}, kHeads},
                                Rows{layer.states.data(), kHeads, kDim * kDim});
      if (!s) state.SkipWithError(s.message().c_str());
    }));
    peaks.push_back(multiply_add_peak());
  }
  report(state, seconds, peaks, kFlops, "flops");
}

// f(worker, layer, head) for every head of every layer, a barrier behind each layer, as a model decodes; nothing of the
// states is in the caches before, neither in the reader's nor in another core's.
template <class F>
double seconds_of_heads(const AlignedFloats& states, int layers, F&& f) {
  probe_level("").value()->flush(states.data(), states.size() * sizeof(float));
  return seconds_of([&] {
    (void)processors().pool().run([&](Worker& worker) {
      const Share mine = worker.share(kHeads);
      for (int layer = 0; layer < layers; ++layer, worker.barrier())
        for (auto head = static_cast<int>(mine.begin); head < static_cast<int>(mine.end); ++head) f(layer, head);
    });
  });
}

// One token through kLayers layers; the ceiling is x <- a x over the same bytes.
void decode(benchmark::State& state, bool gated) {
  constexpr int kLayers = 128;
  Layer layer(1, kLayers);
  std::vector<ScanToken> tokens;
  for (int head = 0; head < kHeads; ++head) tokens.push_back(layer.token(0, head, gated));
  std::vector<AlignedFloats> scratch(kHeads, AlignedFloats(scan_scratch_floats(kDim, kDim)));
  const auto state_of = [&](int l, int head) {
    return &layer.states[(static_cast<std::size_t>(l) * kHeads + static_cast<std::size_t>(head)) * kDim * kDim];
  };
  const double bytes = 2.0 * static_cast<double>(layer.states.size()) * sizeof(float);
  std::vector<double> seconds, ceilings;
  for (auto _ : state) {
    seconds.push_back(seconds_of_heads(layer.states, kLayers, [&](int l, int head) {
      const auto h = static_cast<std::size_t>(head);
      scan_steps({&tokens[h], 1, kDim, kDim, state_of(l, head), kDim, gated, false, Erase::own_key, scratch[h].data()});
    }));
    ceilings.push_back(bytes / seconds_of_heads(layer.states, kLayers, [&](int l, int head) {
                         simd::kernels().scale(state_of(l, head), 0.999f, kDim * kDim);
                       }));
  }
  report(state, seconds, ceilings, bytes, "bytes_per_s");
}

BENCHMARK_CAPTURE(prefill, gated_delta_net / chunks, false, scan_chunks)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, gated_delta_net / steps, false, scan_steps)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, kimi_delta / chunks, true, scan_chunks)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, kimi_delta / steps, true, scan_steps)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_strips, gated_delta_net, false)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_strips, kimi_delta, true)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, retention, Retention{kFactors})->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, gla, Gla{})->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, mamba2, Mamba2{kLogDecays})->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, rwkv6, (Rwkv6{Rows{kWeights.data(), kHeads, kDim}}))->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, rwkv7, Rwkv7{})->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, gated_delta_net, GatedDeltaNet{})->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill_rule, kimi_delta, KimiDelta{})->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(decode, gated_delta_net, false)->Iterations(40)->UseRealTime();
BENCHMARK_CAPTURE(decode, kimi_delta, true)->Iterations(40)->UseRealTime();

}  // namespace
}  // namespace fourfold
