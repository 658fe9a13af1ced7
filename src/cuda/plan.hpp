// DevicePlan: a Program resolved for one device and one sequence: addresses instead of names, launches instead of
// steps.
#pragma once

#include <variant>
#include <vector>

#include "cuda/project.hpp"
#include "cuda/steps.hpp"
#include "cuda/weights.hpp"
#include "program/arena.hpp"
#include "program/backend.hpp"

namespace fourfold::cuda {

struct DeviceEmbed {
  WeightRun table;
  float scale;
  float* out;
};
struct DeviceAttend {
  Attention attention;
  AttentionKind kind;
};
// A launch; several make one step where an Append mixes storages.
using DeviceStep = std::variant<DeviceEmbed, DeviceProject, DeviceAttend>;

struct DevicePlan {
  std::vector<DeviceStep> steps;  // all but the last
  DeviceProject head{};           // logits
  ArenaPlan arena;
};

// Activations of `tokens` tokens: Value v begins at arena + tokens * its offset.
struct ActivationMemory {
  float* arena;
  float* raw;  // queries, keys and values before their norms and turns
  int tokens;
};

// Device memory of one sequence, which the plan's addresses point into.
struct SequenceMemory {
  DeviceMemory arena, logits;
  DeviceMemory state;       // TokenState, at 64 the sampler's numbers, at 96 the filter's, at 128 counters of heads
  DeviceMemory candidates;  // of the filter
  DeviceMemory scratch;     // attend_bytes of attention, then raw queries, keys and values
  std::size_t attend_bytes = 0;
  std::vector<DeviceMemory> caches;  // per layer
  std::vector<CacheLayout> layouts;
  KvType type = KvType::bf16;
  std::vector<DeviceMemory> turns;  // per RopeSpec: cos, sin [position][dims / 2]

  // Those of one token.
  ActivationMemory activations() const {
    return {arena.as<float>(), scratch.as<float>() + attend_bytes / sizeof(float), 1};
  }
  TokenState* token() const { return state.as<TokenState>(); }
  unsigned long long* best() const { return reinterpret_cast<unsigned long long*>(state.data() + 64); }
  unsigned long long* least() const { return reinterpret_cast<unsigned long long*>(state.data() + 96); }
  unsigned* filters_done() const { return reinterpret_cast<unsigned*>(state.data() + 104); }
};

// Every requirement that `program` does not meet, one a line; ok when there is none.
status check_program(const Program& program, const PlanOptions& options, const char* executor);

result<SequenceMemory> allocate_sequence(const Program& program, const PlanOptions& options, const ArenaPlan& arena);
DevicePlan resolve(const Program& program, const DeviceWeights& weights, const SequenceMemory& memory,
                   const ActivationMemory& activations, const ArenaPlan& arena);

}  // namespace fourfold::cuda
