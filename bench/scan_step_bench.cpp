// Scan steps as a model runs them: a Program of nothing but layers with running states, on the team executor, so that
// gathering operands, unit lengths, step sizes and decays count. 16 heads of 128 x 128, or 4096 channels of 16 keys.
// prefill: 1024 tokens, operations (7 keys values a token and head) per second and their share of the float32
// multiply-add peak, probed in turns; for Mamba-1 the exponentials bind, so its share says little.
#include <cmath>
#include <string>

#include "cpu/team/team.hpp"
#include "models/random_weights.hpp"
#include "program/builder.hpp"
#include "timing.hpp"

namespace fourfold {
namespace {

constexpr int kTokens = 1024, kLayers = 2, kVocab = 64, kHeads = 16, kDim = 128, kChannels = 4096, kKeys = 16;

// Every operand is a run of columns of one embedded row.
class Operands {
 public:
  explicit Operands(Value row) : row_(row) {}
  Columns take(int width) {
    const int first = taken_;
    taken_ += width;
    return {.value = row_, .first = first, .width = width};
  }

 private:
  Value row_;
  int taken_ = 0;
};

Program make_program(Mechanism mechanism) {
  const bool channels = mechanism == Mechanism::mamba, per_key = mechanism == Mechanism::kimi_delta;
  const int heads = channels ? kChannels : kHeads, keys = channels ? kKeys : kHeads * kDim,
            values = channels ? kChannels : kHeads * kDim;
  std::vector<TensorSpec> tensors;
  const auto tensor = [&](const std::string& name, int rows, int cols) {
    tensors.push_back({name, Storage::f32, rows, cols, 0, 1});
    return Weight{static_cast<int>(tensors.size()) - 1};
  };
  Builder b{tensors};
  const Weight table = tensor("table", kVocab, 2 * keys + values + heads * (per_key ? kDim : 1) + heads);
  const Value row = b.embed(table);
  Value out{};
  for (int i = 0; i < kLayers; ++i) {
    b.layer(i);
    Operands take(row);
    ScanStep scan{.mechanism = mechanism, .heads = heads, .key_heads = channels ? 1 : kHeads};
    scan.query = take.take(keys), scan.key = take.take(keys), scan.value = take.take(values);
    if (mechanism != Mechanism::retention) scan.decay = take.take(heads * (per_key ? kDim : 1));
    scan.rate = tensor("rate" + std::to_string(i), channels ? heads : 1, channels ? kKeys : heads);
    if (mechanism == Mechanism::gated_delta || per_key) {
      scan.strength = take.take(heads);
      scan.unit_eps = 1e-6f;
      scan.query_scale = 1 / std::sqrt(static_cast<float>(kDim));
    }
    out = b.scan(scan);
  }
  const Weight norm = tensor("norm", 1, values), head = tensor("head", kVocab, values);
  return std::move(b).logits(rms(out, {norm, 1e-6f}), head);
}

void prefill(benchmark::State& state, Mechanism mechanism) {
  const Program program = make_program(mechanism);
  const auto backend = make_team(program, RandomWeights(7), {.threads = default_threads()});
  if (!backend.ok()) return state.SkipWithError(backend.error().message().c_str());
  const auto executor = (*backend)->plan({.context = kTokens, .batch = kTokens});
  if (!executor.ok()) return state.SkipWithError(executor.error().message().c_str());
  std::vector<int> ids(kTokens);
  for (int i = 0; i < kTokens; ++i) ids[static_cast<std::size_t>(i)] = i * 37 % kVocab;
  std::vector<float> logits(kVocab);
  std::vector<double> seconds, peaks;
  for (auto _ : state) {
    seconds.push_back(seconds_of([&] { (void)(*executor)->forward(ids, 0, 1, logits.data()); }));
    peaks.push_back(multiply_add_peak());
  }
  report(state, seconds, peaks, 7.0 * static_cast<double>(program.state_numbers()) * kTokens, "flops");
}

BENCHMARK_CAPTURE(prefill, retention, Mechanism::retention)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, mamba, Mechanism::mamba)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, mamba2, Mechanism::mamba2)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, gated_delta, Mechanism::gated_delta)->Iterations(15)->UseRealTime();
BENCHMARK_CAPTURE(prefill, kimi_delta, Mechanism::kimi_delta)->Iterations(15)->UseRealTime();

}  // namespace
}  // namespace fourfold
