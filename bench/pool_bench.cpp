// What the team pays to meet: one barrier inside a run, one whole run, one run that finds the team parked.
// No bytes, no FLOPs: the latency of a cache line between cores binds (of the scheduler, when threads take turns).
#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

#include "cpu/pool.hpp"

namespace fourfold {
namespace {

constexpr int kBarriers = 1000;

void barrier(benchmark::State& state) {
  const auto pool = std::move(Pool::create(static_cast<int>(state.range(0)))).value();
  for (auto _ : state) {
    (void)pool->run([](Worker& w) {
      for (int i = 0; i < kBarriers; ++i) w.barrier();
    });
  }
  state.counters["per_barrier"] = benchmark::Counter(static_cast<double>(state.iterations()) * kBarriers,
                                                     benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void run(benchmark::State& state) {
  const auto pool = std::move(Pool::create(static_cast<int>(state.range(0)))).value();
  for (auto _ : state) (void)pool->run([](Worker& w) { benchmark::DoNotOptimize(w.index); });
}

void run_parked(benchmark::State& state) {
  const auto pool = std::move(Pool::create(static_cast<int>(state.range(0)))).value();
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    const auto start = std::chrono::steady_clock::now();
    (void)pool->run([](Worker& w) { benchmark::DoNotOptimize(w.index); });
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

// Phases of about 10 microseconds of arithmetic: the share of the time that is not work is what barriers cost.
void phases(benchmark::State& state) {
  const auto pool = std::move(Pool::create(static_cast<int>(state.range(0)))).value();
  for (auto _ : state) {
    (void)pool->run([](Worker& w) {
      for (int i = 0; i < 100; ++i) {
        float x = 1;
        for (int k = 0; k < 10000; ++k) benchmark::DoNotOptimize(x = x * 0.5f + 1.0f);
        w.barrier();
      }
    });
  }
}

BENCHMARK(barrier)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->Arg(7)->UseRealTime();
BENCHMARK(run)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->Arg(7)->UseRealTime();
BENCHMARK(run_parked)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->Arg(7)->UseManualTime()->Iterations(50);
BENCHMARK(phases)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->Arg(7)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace fourfold
