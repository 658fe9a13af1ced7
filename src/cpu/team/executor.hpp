// TeamExecutor: one forward is one run of the pool; steps follow each other with a barrier between.
//
// T tokens. Inputs of a Project are prepared (normed, rounded as its dots take them) once: by every worker for itself
// when T is 1 (cheaper than a barrier), shared out over the tokens otherwise. A worker then walks its units, whole rows
// for all tokens, and applies the epilogue while they are in L1. Decode is bound by memory: a worker streams one long
// stretch of weights per step, then short ones that workers done earlier may claim. Prefill is bound by the dot units.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fourfold/route.hpp>
#include <fourfold/scan_kernel.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/aligned.hpp"
#include "cpu/pool.hpp"
#include "cpu/team/cache.hpp"
#include "cpu/team/latent.hpp"
#include "cpu/team/plan.hpp"
#include "cpu/team/weights.hpp"
#include "program/backend.hpp"

namespace fourfold::team {

// What sessions of one model share. `plan` of the Program must outlive it.
struct TeamModel {
  Program program;
  std::unique_ptr<Pool> pool;
  const Kernels* kernels = nullptr;
  TeamWeights weights;
  bool f32 = false;
  std::mutex running{};  // Sessions of several threads take turns on the pool
};

// Brings bytes to the caches a few lines at a time, while their reader waits at a barrier. Loads, not prefetches:
// those are dropped when the processor's miss buffers are full.
struct WarmUp {
  const std::uint8_t* next = nullptr;
  const std::uint8_t* end = nullptr;

  // False when all is done.
  bool touch() noexcept {
    constexpr int kLines = 8;
    for (int line = 0; line < kLines && next < end; ++line, next += 64) asm volatile("" : : "r"(*next));
    return next < end;
  }
};

// What a row is multiplied with, besides the norm's weight.
inline float norm_scale(const Kernels& k, const float* x, int n, float eps, float scale) {
  return scale / std::sqrt(k.sum_squares(x, n) / static_cast<float>(n) + eps);
}

// The first byte of a buffer on a cache line; the buffer has 64 bytes to spare.
inline std::uint8_t* aligned(std::vector<std::uint8_t>& buffer) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return buffer.data() + ((address + 63) / 64 * 64 - address);
}

class TeamExecutor : public Executor {
 public:
  TeamExecutor(std::shared_ptr<TeamModel> model, const PlanOptions& options, TeamCache cache);

  status forward(std::span<const int> ids, int position, int wanted, float* logits) override;
  int rewind(int position) override;
  result<std::unique_ptr<Executor>> fork() const override;
  std::size_t cache_bytes() const override {
    return cache_.held_bytes() + (running_.size() + checkpoint_.size()) * sizeof(float);
  }
  void read_states(std::span<float> out) const override { std::copy(running_.begin(), running_.end(), out.begin()); }
  void write_states(std::span<const float> states) override {
    std::copy(states.begin(), states.end(), running_.begin());
    checkpoint_ = running_;
  }
  std::string_view row_format() const override { return info(cache_.type()).name; }
  std::size_t row_bytes(int cache) const override { return cache_.row_bytes(cache); }
  void read_rows(int cache, int first, int count, std::byte* out) const override {
    cache_.read_rows(cache, first, count, out);
  }
  status jump(int position) override;
  void write_rows(int cache, int first, int count, const std::byte* in) override {
    cache_.write_rows(cache, first, count, in);
  }
  std::span<const std::byte> weights() const override { return model_->weights.tiles(); }
  status randomize_cache(int positions, std::uint64_t seed) override;
  const float* value(Value v) const override;
  void cached(int cache, int position, int head, float* key, float* value) const override {
    cache_.read(cache, position, head, key, value);
  }

 private:
  static constexpr int kRedundantTokens = 1;  // up to here every worker prepares the input for itself
  static constexpr std::size_t kWarmUpBytes = 96 << 10;
  static constexpr int kQueryTile = 16;  // prompt positions that share a walk over the keys

  // Scratch of one worker.
  struct Local {
    std::vector<std::uint8_t> prepared[3];  // by simd::Rounding: one row
    float scale = 1;                        // of that row
    std::vector<float> row;                 // [max_width]
    std::vector<float> out, out2;           // [batch, unit rows]
    std::vector<float> states;              // attend: two states for each row of a query tile
    std::vector<const float*> queries;      // attend: query rows and the keys each sees
    std::vector<std::int32_t> first, last;
    std::vector<int> positions, heads;   // attend with a walk or score of its own: of each query row
    std::vector<float> map, gate;        // one group of a MapStep
    std::vector<float> q, k, v, decay;   // scan: [kScanTokens, head dim or kScanChannels]
    std::vector<float> strength;         // scan: [kScanTokens]
    std::vector<ScanToken> tokens;       // scan: [kScanTokens]
    std::vector<ChannelToken> channels;  // scan: [kScanTokens]
    std::vector<float> scan;             // scan: the kernel's scratch
    std::vector<float> past;             // convolution: [kernel - 1 + kScanTokens, kConvChannels]
    TeamCache::Scratch leaves;           // attend: leaves put together of smaller pages
    RouteScratch<float> route;           // a token's choice
    std::vector<int> ids;                // [max_chosen]
    std::vector<float> weights;          // [max_chosen]
    LatentLocal latent;
  };
  // A batch's choices, sorted by expert. A slot is token * chosen + choice.
  struct Lists {
    std::vector<int> active;                  // experts with a slot, ascending
    std::vector<std::int32_t> first;          // [experts + 1]: where an expert's slots begin
    std::vector<std::int32_t> slots, inputs;  // sorted: slots, and the input row of each

    void resize(int experts, std::size_t slot_count);
    void sort(const float* ids, int count, int experts, int slots_per_input);
  };
  // Where a Project's prepared input lies.
  struct Prepared {
    const std::uint8_t* rows[3];  // by simd::Rounding
    const float* scale;           // per token: the norm's scalar, applied after the dot; null: none
  };

  float* at(Value v, int tokens, int token = 0) const;
  int width(Value v) const { return model_->program.width(v); }
  void make_rope_tables(Worker& worker);
  WarmUp warm_up_after(std::size_t step, const Worker& worker) const;
  int first_visible(const TeamAttend& step, int position) const {
    return step.window > 0 ? std::max(0, position - step.window + 1) : 0;
  }

  void run_step(Worker& worker, const TeamEmbed& step);
  void run_step(Worker& worker, const TeamProject& step);
  void run_step(Worker& worker, const TeamAttend& step);
  void run_step(Worker& worker, const TeamLatent& step);
  void run_step(Worker& worker, const TeamScan& step);
  void run_step(Worker& worker, const TeamConv& step);
  void run_step(Worker& worker, const TeamMap& step);
  void run_step(Worker& worker, const TeamRoute& step);
  void run_step(Worker& worker, const TeamExperts& step);
  void run_step(Worker& worker, const TeamCombine& step);

  Prepared prepare(Worker& worker, const TeamProject& step, int first, int tokens);
  float prepare_row(const TeamProject& step, int token, Local& local, bool keep_sum, std::uint8_t* const rows[3]);
  void run_unit(const TeamProject& step, const Unit& unit, const Prepared& in, int tokens, Local& local);
  void dot(const TeamDot& dot, const Unit& unit, const Prepared& in, int tokens, float* out, std::size_t stride) const;
  void append_heads(const TeamProject& step, const Append& append, const Unit& unit, const Prepared& in, int tokens,
                    Local& local);
  void append_rows(const TeamProject& step, const Append& append, const Unit& unit, const Prepared& in, int tokens);
  void append_row(const TeamProject& step, const Append& append, int token);
  void append_key(const TeamProject& step, const AppendKey& append, const Unit& unit, const Prepared& in, int tokens);
  void normalise(float* x, const TeamNorm& norm) const;
  void turn_head(float* head, const std::optional<TeamNorm>& norm, int rope, int token) const;
  void turn_heads(float* rows, std::size_t stride, const Unit& unit, int head_dim, const std::optional<TeamNorm>& norm,
                  int rope, int tokens) const;

  void reserve_scratch(Local& local) const;
  void activate(Activation activation, float* x, int n) const;
  // out = activation(y0) * y1; out may be y0.
  void gate(Activation activation, const float* y0, const float* y1, int n, float* out) const;
  void gather(const Columns& from, int token, int first, int n, float* out) const;
  void scan_head(const TeamScan& step, int head, Local& local);
  void scan_means(const TeamScan& step, int first, int count);
  void scan_channels(const TeamScan& step, int first, int count, Local& local);
  void prepare_scan(const TeamScan& step, int head, int token, int count, Local& local) const;
  void raw_decays(const TeamScan& step, int token, int first, int n, float* out) const;
  float step_size(const TeamScan& step, int token, int head) const;
  void key_decays(const TeamScan& step, int token, int head, float* out) const;
  void convolve(const TeamConv& step, const TeamPiece& piece, Local& local);
  void map_group(const TeamMap& step, int token, int first, Local& local);
  Prepared prepare(Worker& worker, const TeamExperts& step, int tokens);
  void experts_for_one(Worker& worker, const TeamExperts& step);
  void experts_for_many(Worker& worker, const TeamExperts& step);
  WarmUp warm_up(const TeamExperts& step, const Worker& worker) const;
  void run_choice(const TeamExperts& step, int choice, int row, int rows, const Prepared& in, Local& local);
  void run_expert(const TeamExperts& step, int expert, int row, int rows, const Prepared& in, Local& local);
  void finish_choice(const TeamExperts& step, int expert, int row, int rows, float scale, float* y0, float* y1,
                     float* out) const;

  void attend_blocks(Worker& worker, const TeamAttend& step);
  void attend_heads(Worker& worker, const TeamAttend& step, int head, int heads, int block, int blocks);
  void attend_tiles(Worker& worker, const TeamAttend& step);
  void attend_tile(const TeamAttend& step, int kv_head, int token, int count, Local& local);
  void finish_head(const TeamAttend& step, const float* state, int token, int head) const;
  void attend_block(const TeamAttend& step, int kv_head, int block, int rows, float* states, Local& local) const;
  void attend_rows(const TeamAttend& step, int block, simd::AttendArgs args, const Local& local) const;

  void gate_head(const TeamAttend& step, int token, int head, int columns) const;

  void attend_absorbed_one(Worker& worker, const TeamLatent& step, bool chosen);
  void attend_absorbed_many(Worker& worker, const TeamLatent& step, bool chosen);
  void absorb_query(const TeamLatent& step, int token, int head, float* row, LatentLocal& local) const;
  void absorb_block(const TeamLatent& step, int token, int block, Range heads, const float* queries, float* states,
                    bool chosen, Local& local);
  void finish_absorbed(const TeamLatent& step, const float* state, int token, int head, LatentLocal& local) const;
  Range latent_blocks(const TeamLatent& step, int token, bool chosen) const;
  void attend_expanded(Worker& worker, const TeamLatent& step);
  void load_latent(const TeamLatent& step, int position, int i, Local& local);
  void expand_head(const TeamLatent& step, int head, int count, LatentLocal& local);
  void attend_expanded_tile(const TeamLatent& step, int head, int block, bool opening, int token, int count,
                            Local& local);
  void choose_keys(Worker& worker, const TeamLatent& step);
  void score_leaf(const TeamLatent& step, int token, int leaf, float* scores, Local& local) const;
  void select_keys(const TeamLatent& step, int token, const float* scores, LatentLocal& local);

  std::shared_ptr<TeamModel> model_;
  const Kernels& k_;
  PlanOptions options_;
  TeamPlan plan_;
  TeamCache cache_;
  AlignedFloats running_;      // states of all scans and convolutions, in the Program's order
  AlignedFloats checkpoint_;   // the same as they were at position checked_
  int end_ = 0, checked_ = 0;  // positions evaluated; 0 <= checked_ <= end_
  ChunkQueue queue_;

  std::vector<float> arena_;
  std::vector<std::uint8_t> prepared_[3];      // by simd::Rounding: [batch] rows
  std::vector<float> scale_;                   // [batch]
  std::vector<std::vector<float>> cos_, sin_;  // per rope: [batch, dims / 2]
  int blocks_ = 0;                             // of 1024 keys in the context
  std::vector<float> states_;                  // decode attention: [heads, blocks] states
  std::vector<std::atomic<int>> done_;         // per kv head: items of the step under way that are done
  Lists lists_;
  LatentShared latent_;
  std::vector<float> key_;  // of the one worker that finishes an AppendKey
  std::vector<Local> locals_;

  // Of the forward under way.
  std::span<const int> ids_;
  int position_ = 0, wanted_ = 0;
  float* logits_ = nullptr;
};

}  // namespace fourfold::team
