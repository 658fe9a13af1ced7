// Placement: which device runs each step of a Program. Only experts are told apart: they hold most of a routed model's
// weights and read few of them for a token, so that they are what may stay in the processor's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "fourfold/program.hpp"

namespace fourfold {

enum class Place : std::uint8_t { cpu, gpu };

struct Placement {
  std::vector<Place> steps;                           // per step of the Program
  double cpu_weight_bytes = 0, gpu_weight_bytes = 0;  // of all experts, resident
};

// Where experts go. layers: those of the first so many layers stay on the CPU; unset: of all.
enum class ExpertsOn : std::uint8_t { automatic, cpu, gpu };
std::optional<ExpertsOn> experts_on(std::string_view name);  // "auto", "cpu", "gpu"

// Everything but experts is placed on the GPU where there is one (gpu_bytes > 0), else on the CPU. automatic: experts
// go to the GPU layer by layer from the last one, as long as all weights placed there fit gpu_bytes.
Placement place(const Program& program, ExpertsOn where, std::optional<int> layers, double gpu_bytes);

// Distinct experts of a step that `tokens` tokens choose, each at random.
double distinct_experts(const Program& program, const Experts& step, int tokens);

}  // namespace fourfold
