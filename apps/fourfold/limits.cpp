#include "limits.hpp"

#include <algorithm>

#include "cpu/simd/kernels.hpp"
#include "cpu/topology.hpp"
#include "exit.hpp"
#include "figures.hpp"
#include "lab/probe.hpp"

namespace fourfold::cli {

Limits measured_limits(const Everywhere& everywhere, bool f32, std::span<const std::byte> weights) {
  constexpr std::size_t kSomeSize = std::size_t{16} << 20;
  ProbeOptions options;
  options.threads = std::min(everywhere.threads, default_threads());  // more only take turns, at barriers that spin
  options.isa = simd::kernels().name;
  if (weights.size() >= kSomeSize) options.data = weights;
  options.quick = true;
  Ceilings c = must(probe(options));
  if (!options.data.empty()) c.read_bytes_per_s = must(ReadCeiling::create(options))->sample();
  return {c.read_bytes_per_s,
          c.int8_ops,
          c.bf16_ops,
          c.f32_flops,
          c.threads,
          f32,
          "probed with " + std::to_string(c.threads) + (c.threads == 1 ? " thread, " : " threads, ") + c.isa};
}

double ops_per_s(const Program& program, const Step& step, const Limits& limits) {
  const auto* project = std::get_if<Project>(&step.op);
  const auto* experts = std::get_if<Experts>(&step.op);
  if ((project == nullptr || project->exact) && experts == nullptr) return limits.f32_ops;
  if (limits.f32) return limits.f32_ops;
  const Storage storage = program.tensor((experts ? experts->dots : project->dots).front().weight).storage;
  const auto kind = simd::kernels().rounding[simd::index(storage)];
  const double wanted = kind == simd::Rounding::q15    ? limits.int8_ops / 2  // two int8 products each
                        : kind == simd::Rounding::bf16 ? limits.bf16_ops
                                                       : limits.f32_ops;
  return wanted > 0 ? wanted : limits.f32_ops;
}

void Floor::add(const Floor& other) {
  cost.weight_bytes += other.cost.weight_bytes;
  cost.cache_bytes += other.cost.cache_bytes;
  cost.flops += other.cost.flops;
  memory_s += other.memory_s;
  compute_s += other.compute_s;
  seconds += other.seconds;
}

Floor floor_of(const Program& program, const Step& step, const Work& work, const Limits& limits) {
  Floor floor;
  floor.cost = cost(program, step, work.tokens, work.context, work.cache, work.wanted);
  floor.memory_s = floor.cost.bytes() / limits.bytes_per_s;
  floor.compute_s = floor.cost.flops / ops_per_s(program, step, limits);
  floor.seconds = std::max(floor.memory_s, floor.compute_s);
  return floor;
}

Floor floor_of(const Program& program, const Work& work, const Limits& limits) {
  Floor total;
  for (const Step& step : program.steps) total.add(floor_of(program, step, work, limits));
  return total;
}

}  // namespace fourfold::cli
