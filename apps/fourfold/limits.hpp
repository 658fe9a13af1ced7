// Which limit binds: a Program's bytes and FLOPs against this machine's measured ceilings.
#pragma once

#include <fourfold/program.hpp>
#include <fourfold/session.hpp>
#include <optional>
#include <span>
#include <string>

#include "shared.hpp"

namespace fourfold::cli {

struct Limits {
  double bytes_per_s = 0;                          // reading memory
  double int8_ops = 0, bf16_ops = 0, f32_ops = 0;  // per second, a multiply and an add counted as two
  int threads = 0;
  bool f32 = false;    // float32 activations: every dot runs at f32_ops
  std::string source;  // "probed: ..." or "given"
};

// From the cache of measured ceilings, or measured now (about 0.1 s). Given weights of some size, reading is measured
// now and on them: what memory gives changes by the second, and a buffer would cost more memory than many a model.
Limits measured_limits(const Everywhere& everywhere, bool f32, std::span<const std::byte> weights = {});

// The rate of a step's arithmetic: that of the activations its weights are multiplied with.
double ops_per_s(const Program& program, const Step& step, const Limits& limits);

struct Floor {
  StepCost cost;
  double memory_s = 0, compute_s = 0;  // at the ceilings
  double seconds = 0;                  // the longer of the two, step by step
  bool memory_binds() const { return memory_s >= compute_s; }
  const char* binds() const { return memory_binds() ? "memory" : "compute"; }
  void add(const Floor& other);
};
// What a step, or a whole Program, takes at least; arguments as for cost().
struct Work {
  int tokens = 1;
  std::int64_t context = 1;
  Storage cache = Storage::f16;
  int wanted = 1;
};
Floor floor_of(const Program& program, const Step& step, const Work& work, const Limits& limits);
Floor floor_of(const Program& program, const Work& work, const Limits& limits);

}  // namespace fourfold::cli
