// Routed experts at the shapes of Qwen3-30B-A3B, 8 layers of them and nothing else: 2048 wide, 128 experts of 768, 8
// chosen. Random weights of 2.7 GB (Q4_K) or 5.1 GB (Q8_0), far beyond any cache. decode: one token, bytes of the
// experts chosen per second against the read ceiling, sampled between the runs. prefill: 512 tokens, operations.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "cpu/team/team.hpp"
#include "cpu/topology.hpp"
#include "lab/probe.hpp"
#include "models/random_weights.hpp"
#include "program/builder.hpp"

namespace fourfold {
namespace {

constexpr int kWidth = 2048, kExperts = 128, kRows = 768, kChosen = 8, kLayers = 8, kVocab = 256;

Program make_program(Storage storage) {
  std::vector<TensorSpec> tensors;
  const auto tensor = [&](const std::string& name, Storage how, int rows, int cols, int stack = 1) {
    tensors.push_back({name, how, rows, cols, 0, stack});
    return Weight{static_cast<int>(tensors.size()) - 1};
  };
  const auto norm = [&](const std::string& name) { return NormSpec{tensor(name, Storage::f32, 1, kWidth), 1e-6f}; };
  Builder b{tensors};
  const Weight table = tensor("table", Storage::f32, kVocab, kWidth);
  Value x = b.embed(table);
  for (int i = 0; i < kLayers; ++i) {
    b.layer(i);
    const std::string at = std::to_string(i);
    const Input in = rms(x, norm("norm" + at));
    const auto routed =
        b.route(in, {tensor("router" + at, Storage::f32, kExperts, kWidth)}, {.chosen = kChosen, .renormalise = true});
    const Value m = b.experts("experts_gate_up", in, routed,
                              {{tensor("gate" + at, storage, kRows, kWidth, kExperts)},
                               {tensor("up" + at, storage, kRows, kWidth, kExperts)}},
                              {.activation = Activation::silu});
    const Value made = b.experts("experts_down", {m}, routed, {{tensor("down" + at, storage, kWidth, kRows, kExperts)}},
                                 {.per_choice = true});
    x = b.combine(made, routed, {.x = x});
  }
  return std::move(b).logits(rms(x, norm("output_norm")), table);
}

struct Work {
  double bytes = 0, flops = 0;  // of the experts alone
};
Work work_of(const Program& program, int tokens) {
  Work work;
  for (const Step& step : program.steps)
    if (std::holds_alternative<Experts>(step.op)) {
      const StepCost c = cost(program, step, tokens, tokens, Storage::f16, 1);
      work.bytes += c.weight_bytes;
      work.flops += c.flops;
    }
  return work;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void experts(benchmark::State& state, Storage storage, int tokens) {
  const Program program = make_program(storage);
  const auto backend = make_team(program, RandomWeights(7), {.threads = default_threads()});
  if (!backend.ok()) return state.SkipWithError(backend.error().message().c_str());
  const auto executor = (*backend)->plan({.context = 1024, .batch = tokens});
  if (!executor.ok()) return state.SkipWithError(executor.error().message().c_str());
  ProbeOptions probe;
  probe.threads = default_threads();
  probe.data = (*executor)->weights();
  const auto ceiling = ReadCeiling::create(probe);
  if (!ceiling.ok()) return state.SkipWithError(ceiling.error().message().c_str());
  std::vector<int> ids(static_cast<std::size_t>(tokens));
  std::vector<float> logits(kVocab);
  std::vector<double> limits, times;
  int next = 0;
  for (auto _ : state) {
    if (times.size() % 16 == 0) limits.push_back((*ceiling)->sample());
    for (int& id : ids) id = next++ * 37 % kVocab;
    const auto start = std::chrono::steady_clock::now();
    const status done = (*executor)->forward(ids, 0, 1, logits.data());
    times.push_back(seconds_since(start));
    state.SetIterationTime(times.back());
    if (!done.ok()) return state.SkipWithError(done.message().c_str());
  }
  const auto quartile = [](std::vector<double>& x, std::size_t which) {
    std::sort(x.begin(), x.end());
    return x[which * (x.size() - 1) / 4];
  };
  const Work work = work_of(program, tokens);
  const double time = quartile(times, 2), limit = quartile(limits, 2);
  state.counters["median_us"] = time * 1e6;
  state.counters["spread_us"] = (quartile(times, 3) - quartile(times, 1)) * 1e6;
  state.counters["flops"] = work.flops / time;
  if (tokens > 1) return;
  state.counters["bytes"] = work.bytes;
  state.counters["bytes_per_s"] = work.bytes / time;
  state.counters["read_ceiling"] = limit;
  state.counters["share_of_ceiling"] = work.bytes / time / limit;
}

void add(const char* name, Storage storage) {
  const std::string at(name);
  benchmark::RegisterBenchmark(("experts_decode/" + at).c_str(), experts, storage, 1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(160);
  benchmark::RegisterBenchmark(("experts_prefill/" + at).c_str(), experts, storage, 512)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(3);
}

const bool kAdded = (add("q4_k", Storage::q4_k), add("q8_0", Storage::q8_0), true);

}  // namespace
}  // namespace fourfold
