#include "program/placement.hpp"

#include <charconv>
#include <cmath>
#include <map>
#include <set>

namespace fourfold {
namespace {

double expert_bytes(const Program& program, const Step& step) {
  double bytes = 0;
  if (const auto* experts = std::get_if<Experts>(&step.op))
    for (const Dot& dot : experts->dots)
      for (Weight w : {dot.weight, dot.bias})
        if (w.valid()) bytes += static_cast<double>(program.tensor(w).bytes());
  return bytes;
}

// N of "blk.N.name"; -1 outside a layer.
int layer_of(const Step& step) {
  int layer = -1;
  if (step.name.starts_with("blk.")) std::from_chars(step.name.data() + 4, step.name.data() + step.name.size(), layer);
  return layer;
}

double other_bytes(const Program& program) {
  double all = 0, experts = 0;
  for (const TensorSpec& tensor : program.tensors) all += static_cast<double>(tensor.bytes());
  for (const Step& step : program.steps) experts += expert_bytes(program, step);
  return all - experts;
}

}  // namespace

std::optional<ExpertsOn> experts_on(std::string_view name) {
  if (name == "auto") return ExpertsOn::automatic;
  if (name == "cpu") return ExpertsOn::cpu;
  if (name == "gpu") return ExpertsOn::gpu;
  return {};
}

Placement place(const Program& program, ExpertsOn where, std::optional<int> layers, double gpu_bytes) {
  std::map<int, double> bytes;  // of each layer's experts
  for (const Step& step : program.steps)
    if (const double step_bytes = expert_bytes(program, step); step_bytes > 0) bytes[layer_of(step)] += step_bytes;
  std::set<int> on_gpu;
  double left = gpu_bytes - other_bytes(program);
  for (auto layer = bytes.rbegin(); layer != bytes.rend() && gpu_bytes > 0; ++layer) {
    left -= layer->second;
    if (where == ExpertsOn::automatic && left < 0) break;
    if (where != ExpertsOn::cpu || (layers && layer->first >= *layers)) on_gpu.insert(layer->first);
  }
  Placement out;
  for (const Step& step : program.steps) {
    const bool experts = std::holds_alternative<Experts>(step.op);
    const bool gpu = gpu_bytes > 0 && (!experts || on_gpu.contains(layer_of(step)));
    out.steps.push_back(gpu ? Place::gpu : Place::cpu);
    (gpu ? out.gpu_weight_bytes : out.cpu_weight_bytes) += expert_bytes(program, step);
  }
  return out;
}

double distinct_experts(const Program& program, const Experts& step, int tokens) {
  const auto experts = static_cast<double>(program.tensor(step.dots[0].weight).stack);
  return experts * (1 - std::pow(1 - program.width(step.ids) / experts, tokens));
}

}  // namespace fourfold
