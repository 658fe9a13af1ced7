// TeamPlan: a Program resolved for the CPU team: pointers instead of names, work units instead of rows.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "cpu/simd/kernels.hpp"
#include "cpu/team/weights.hpp"
#include "fourfold/program.hpp"
#include "program/arena.hpp"

namespace fourfold::team {

using simd::Kernels;
using DotKernel = void (*)(const simd::DotArgs&);

// A Dot with the kernel that computes it.
struct TeamDot {
  Matrix matrix;
  const float* bias;  // null: none
  DotKernel kernel;
  simd::Rounding kind;  // of the prepared input
  float scale = 1;

  const std::uint8_t* row(int i) const { return matrix.tile(i / simd::kTileRows); }
};

struct TeamNorm {
  const float* weight;
  float eps;
  float scale;
  int width;          // entries it is over
  const float* bias;  // null: none, and no mean is subtracted
};

// A unit of a Project: consecutive rows that one worker computes for all tokens, whole tiles of each dot it touches.
// Store, AddTo, AppendKey: rows of dot 0. Gated: the same rows of both dots. Turn: whole heads. Append:
// whole heads; a unit of kv heads holds the same heads of dots 1 and 2, so that one worker appends key and value
// together.
struct Unit {
  int dot;  // 0; of an Append 1 for the key/value heads and 3 for the gate
  int row, rows;
  std::int64_t bytes;  // of weights, to share the work by
};

struct TeamEmbed {
  Matrix table;
  float scale;
  Value out;
};

// A worker's share of one token's weights: a long stretch, then short ones that workers done earlier may claim.
inline constexpr double kLongStretch = 0.7;  // of the share
inline constexpr int kShortStretches = 4;

struct TeamAddNorm {
  Value x, y, out;
  TeamNorm norm;
};

struct TeamProject {
  int width;  // of the input
  std::optional<TeamAddNorm> add;
  Value in;
  std::optional<TeamNorm> norm;
  std::vector<TeamDot> dots;
  std::array<bool, 3> kinds{};  // by simd::Rounding: those that the dots need
  std::vector<Unit> units;
  std::vector<Unit> stretches;  // for one token: units joined, equally many for each worker, its own ones together
  ProjectEpilogue epilogue;
  std::optional<TeamNorm> query_norm, key_norm;  // of Turn and AppendKey: the first
  bool last_only;
};

struct TeamAttend {
  Value query, out, gate;
  int cache, heads, kv_heads, window;
  simd::KvShape shape;
  float scale, soft_cap;
  const float* sinks;  // null: none
  AnyWalk walk;        // with the score: empty, or the Program's own
  AnyScore score;

  bool hooked() const { return static_cast<bool>(walk) || static_cast<bool>(score); }
  const float* sink(int head) const { return sinks ? sinks + head : nullptr; }
};

struct TeamTopKeys {
  Value query, weights;
  int cache, heads, dim, count;
  float scale;
};

// Latent attention; `attend.shape` is that of the latents.
struct TeamLatent {
  TeamAttend attend;
  TeamDot key_up, key_down, value_up;
  int rank, nope, rotary, columns;  // of the latent; of a head's unrotated and rotated key and its value
  int expand_from;                  // so many tokens make expanding a position's keys and values cheaper
  std::optional<TeamTopKeys> top;
};

struct TeamScan {
  ScanStep step;
  int keys, values;         // dims of a head
  std::size_t state;        // offset of its states in those of all layers
  std::vector<float> rate;  // A: [heads], of mamba [keys, heads]
  const float *bias, *skip;
  int skips;  // 1: one number for all heads

  bool delta() const { return step.mechanism == Mechanism::gated_delta || step.mechanism == Mechanism::kimi_delta; }
  bool decay_per_key() const { return step.mechanism == Mechanism::kimi_delta; }
};

inline constexpr int kScanChannels = 64;  // of Mamba-1 and RWKV-4: what a worker takes at once

// Channels that lie together in a Value.
struct TeamPiece {
  Value value;
  int column, channel, count;
  float scale;
};

struct TeamConv {
  ShortConv step;
  int kernel, channels;
  std::size_t state;
  std::vector<TeamPiece> pieces;  // at most kConvChannels each: what a worker takes at once
  std::vector<float> weights;     // [kernel, channels]
  const float* bias;
};
inline constexpr int kConvChannels = 64;

struct TeamMap {
  MapStep step;
  const float *weight, *bias;  // null: no norm; no mean is subtracted
  int weights;                 // how many: of the row, or of a group
};

struct TeamRoute {
  Value logits, ids, weights;
  std::span<const float> selection_bias;
  RouteRule rule;
};

struct TeamExperts {
  int width;   // of a row of input
  int chosen;  // experts per token
  Value in, ids, out;
  bool per_choice;
  std::optional<TeamNorm> norm;
  std::vector<TeamDot> dots;  // of expert 0; matrix.bytes() and matrix.rows biases to the next
  std::array<bool, 3> kinds{};
  int unit_rows;  // that one worker computes for all tokens of an expert
  Activation activation;
  ExpertGate gate;
  float alpha, limit;

  int rows() const { return dots[0].matrix.rows; }
  int input_rows(int tokens) const { return per_choice ? tokens * chosen : tokens; }
};

struct TeamCombine {
  Value x, made, weights, shared, shared_gate, out;
  float scale;
};

using TeamStep = std::variant<TeamEmbed, TeamProject, TeamAttend, TeamLatent, TeamScan, TeamConv, TeamMap, TeamRoute,
                              TeamExperts, TeamCombine>;

struct TeamPlan {
  std::vector<TeamStep> steps;
  ArenaPlan arena;
  int max_width = 0;                      // of any Project's input
  std::array<std::size_t, 3> prepared{};  // most bytes of one token's prepared input, by simd::Rounding
  int max_experts = 0, max_chosen = 0;
  int max_unit_rows = 0;  // of the largest unit
  int max_rows = 0;       // of any dot
  int max_map = 0;        // numbers of a group of any MapStep
  int max_head = 0;       // the larger dimension of a scan's head
  int max_kernel = 0;     // of a convolution
};

TeamPlan resolve(const Program& program, const TeamWeights& weights, const Kernels& kernels, int workers, bool f32,
                 bool debug);

// Every requirement of the team executor that `program` does not meet, one a line; ok when there is none.
status check_team(const Program& program, const std::optional<Storage>& cache);

}  // namespace fourfold::team
