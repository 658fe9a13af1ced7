// Route, Experts and Combine on the team: a fold over the walk that a route chose.
//
// One token: the chosen experts' rows, in order of choice, are one long run of tiles that the workers share out evenly;
// nothing is sorted, nothing else is read. Many tokens: choices are sorted by expert; a unit is some rows of one expert
// for all tokens that chose it, so that its weights are read once. Memory binds up to about 30 tokens per expert.
#include <fourfold/math.hpp>

#include "cpu/team/executor.hpp"
#include "program/route_rule.hpp"

namespace fourfold::team {
namespace {

constexpr int kPieces = 1 + kShortStretches;  // of a worker's share of one token's tiles

// Where piece `piece` of a worker's share [begin, end) starts.
std::int64_t piece_start(std::int64_t begin, std::int64_t end, int piece) {
  if (piece == 0) return begin;
  const auto longest = static_cast<std::int64_t>(static_cast<double>(end - begin) * kLongStretch);
  return begin + longest + (end - begin - longest) * (piece - 1) / (kPieces - 1);
}

}  // namespace

// One token's choice is made by every worker for itself: each knows at once which weights it reads next.
void TeamExecutor::run_step(Worker& worker, const TeamRoute& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int tokens = static_cast<int>(ids_.size());
  const auto chosen = static_cast<std::size_t>(step.rule.chosen);
  const std::span<int> ids(local.ids.data(), chosen);
  const std::span<float> weights(local.weights.data(), chosen);
  const Share share = tokens == 1 ? Share{0, 1} : worker.share(tokens);
  for (int t = static_cast<int>(share.begin); t < share.end; ++t) {
    const std::span<const float> logits(at(step.logits, tokens, t), static_cast<std::size_t>(width(step.logits)));
    with_rule(step.rule, step.selection_bias,
              [&](const auto& rule) { choose_row(rule, logits, ids, weights, local.route); });
    if (tokens == 1 && worker.index > 0) return;
    std::copy(ids.begin(), ids.end(), at(step.ids, tokens, t));
    std::copy(weights.begin(), weights.end(), at(step.weights, tokens, t));
  }
}

void TeamExecutor::Lists::resize(int experts, std::size_t slot_count) {
  active.reserve(static_cast<std::size_t>(experts));
  first.resize(static_cast<std::size_t>(experts) + 1);
  slots.resize(slot_count);
  inputs.resize(slot_count);
}

// ids: `count` experts as the Value holds them. `slots_per_input` neighbouring slots read one input row.
void TeamExecutor::Lists::sort(const float* ids, int count, int experts, int slots_per_input) {
  active.clear();
  std::fill(first.begin(), first.end(), 0);
  for (int slot = 0; slot < count; ++slot) ++first[static_cast<std::size_t>(ids[slot])];
  std::int32_t at = 0;
  for (int e = 0; e < experts; ++e) {
    const std::int32_t size = first[static_cast<std::size_t>(e)];
    if (size > 0) active.push_back(e);
    first[static_cast<std::size_t>(e)] = at;
    at += size;
  }
  for (int slot = 0; slot < count; ++slot) {
    const auto place = static_cast<std::size_t>(first[static_cast<std::size_t>(ids[slot])]++);
    slots[place] = slot;
    inputs[place] = slot / slots_per_input;
  }
  for (int e = experts; e > 0; --e) first[static_cast<std::size_t>(e)] = first[static_cast<std::size_t>(e) - 1];
  first[0] = 0;
}

// Rounds the input rows as the dots take them: one token's by every worker for itself, many shared out, with a barrier.
TeamExecutor::Prepared TeamExecutor::prepare(Worker& worker, const TeamExperts& step, int tokens) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const bool redundant = tokens <= kRedundantTokens;
  const int rows = step.input_rows(tokens);
  Prepared in{};
  std::uint8_t* to[3] = {};
  std::size_t stride[3] = {};
  for (std::size_t kind = 0; kind < 3; ++kind) {
    if (!step.kinds[kind]) continue;
    in.rows[kind] = to[kind] = aligned(redundant ? local.prepared[kind] : prepared_[kind]);
    stride[kind] = simd::prepared_bytes(static_cast<simd::Rounding>(kind), step.width);
  }
  float* scale = redundant ? &local.scale : scale_.data();
  in.scale = step.norm ? scale : nullptr;
  const Share share = redundant ? Share{0, rows} : worker.share(rows);
  for (std::int64_t r = share.begin; r < share.end; ++r) {
    const float* x = at(step.in, tokens) + r * step.width;
    for (std::size_t kind = 0; kind < 3; ++kind)
      if (step.kinds[kind])
        k_.prepare[kind](x, step.norm ? step.norm->weight : nullptr, step.width,
                         to[kind] + static_cast<std::size_t>(r) * stride[kind]);
    if (step.norm) scale[r] = norm_scale(k_, x, step.width, step.norm->eps, step.norm->scale);
  }
  if (!redundant) worker.barrier();
  return in;
}

void TeamExecutor::run_step(Worker& worker, const TeamExperts& step) {
  ids_.size() == 1 ? experts_for_one(worker, step) : experts_for_many(worker, step);
}

void TeamExecutor::experts_for_one(Worker& worker, const TeamExperts& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const Prepared in = prepare(worker, step, 1);
  const std::int64_t tiles = step.dots[0].matrix.tile_count(), all = tiles * step.chosen;
  queue_.each(worker, std::int64_t{worker.count} * kPieces, [&](std::int64_t i) {
    const std::int64_t owner = i / kPieces, begin = all * owner / worker.count, end = all * (owner + 1) / worker.count;
    const int piece = static_cast<int>(i % kPieces);
    const std::int64_t last = piece + 1 < kPieces ? piece_start(begin, end, piece + 1) : end;
    for (std::int64_t tile = piece_start(begin, end, piece); tile < last;) {
      const std::int64_t choice = tile / tiles, next = std::min(last, (choice + 1) * tiles);
      const int row = static_cast<int>(tile - choice * tiles) * simd::kTileRows;
      const int rows = std::min(step.rows() - row, static_cast<int>(next - tile) * simd::kTileRows);
      run_choice(step, static_cast<int>(choice), row, rows, in, local);
      tile = next;
    }
  });
}

// What this worker reads first of one token's experts.
WarmUp TeamExecutor::warm_up(const TeamExperts& step, const Worker& worker) const {
  const Matrix& m = step.dots[0].matrix;
  const std::int64_t tiles = m.tile_count(), first = tiles * step.chosen * worker.index / worker.count;
  const std::vector<int>& ids = locals_[static_cast<std::size_t>(worker.index)].ids;
  const auto expert = static_cast<std::size_t>(ids[static_cast<std::size_t>(first / tiles)]);
  const std::uint8_t* weights = m.tile(static_cast<int>(first % tiles)) + expert * m.bytes();
  return {weights, weights + std::min(static_cast<std::size_t>(tiles - first % tiles) * m.tile_bytes, kWarmUpBytes)};
}

namespace {

// A dot's rows of one expert for the prepared rows that `index` lists, or row `input` alone.
simd::DotArgs expert_dot(const TeamDot& dot, int expert, int row, int rows, const std::uint8_t* prepared, float* out) {
  const Matrix& m = dot.matrix;
  const std::uint8_t* tiles = m.tile(row / simd::kTileRows) + static_cast<std::size_t>(expert) * m.bytes();
  return {.tiles = tiles,
          .rows = rows,
          .k = m.cols,
          .x = prepared,
          .x_stride = simd::prepared_bytes(dot.kind, m.cols),
          .tokens = 1,
          .out = out,
          .out_stride = static_cast<std::size_t>(rows)};
}

}  // namespace

// One token's choice: rows [row, row + rows) of its expert.
void TeamExecutor::run_choice(const TeamExperts& step, int choice, int row, int rows, const Prepared& in,
                              Local& local) {
  const int expert = local.ids[static_cast<std::size_t>(choice)];
  float* out = at(step.out, 1) + std::ptrdiff_t{choice} * step.rows() + row;
  float* y[2] = {out, local.out2.data()};
  for (std::size_t d = 0; d < step.dots.size(); ++d) {
    const TeamDot& dot = step.dots[d];
    const std::size_t stride = simd::prepared_bytes(dot.kind, step.width);
    const std::uint8_t* x =
        in.rows[static_cast<std::size_t>(dot.kind)] + (step.per_choice ? static_cast<std::size_t>(choice) * stride : 0);
    dot.kernel(expert_dot(dot, expert, row, rows, x, y[d]));
  }
  finish_choice(step, expert, row, rows, in.scale ? *in.scale : 1, y[0], y[1], out);
}

void TeamExecutor::experts_for_many(Worker& worker, const TeamExperts& step) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const int tokens = static_cast<int>(ids_.size());
  if (worker.index == 0)
    lists_.sort(at(step.ids, tokens), tokens * step.chosen, step.dots[0].matrix.stack,
                step.per_choice ? 1 : step.chosen);
  const Prepared in = prepare(worker, step, tokens);
  const int units = (step.rows() + step.unit_rows - 1) / step.unit_rows;
  queue_.each(worker, static_cast<std::int64_t>(lists_.active.size()) * units, [&](std::int64_t i) {
    const int row = static_cast<int>(i % units) * step.unit_rows;
    run_expert(step, lists_.active[static_cast<std::size_t>(i / units)], row,
               std::min(step.unit_rows, step.rows() - row), in, local);
  });
}

// Rows [row, row + rows) of one expert for every token that chose it.
void TeamExecutor::run_expert(const TeamExperts& step, int expert, int row, int rows, const Prepared& in,
                              Local& local) {
  const int tokens = static_cast<int>(ids_.size());
  const auto begin = static_cast<std::size_t>(lists_.first[static_cast<std::size_t>(expert)]);
  const auto count = static_cast<std::size_t>(lists_.first[static_cast<std::size_t>(expert) + 1]) - begin;
  float* y[2] = {local.out.data(), local.out2.data()};
  for (std::size_t d = 0; d < step.dots.size(); ++d) {
    const TeamDot& dot = step.dots[d];
    simd::DotArgs args = expert_dot(dot, expert, row, rows, in.rows[static_cast<std::size_t>(dot.kind)], y[d]);
    args.tokens = static_cast<int>(count);
    args.index = lists_.inputs.data() + begin;
    dot.kernel(args);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::ptrdiff_t from = static_cast<std::ptrdiff_t>(i) * rows;
    const std::int32_t slot = lists_.slots[begin + i], token = slot / step.chosen;
    finish_choice(step, expert, row, rows, in.scale ? in.scale[token] : 1, y[0] + from, y[1] + from,
                  at(step.out, tokens) + std::ptrdiff_t{slot} * step.rows() + row);
  }
}

// Norm's scalar, biases and activation; out may be y0.
void TeamExecutor::finish_choice(const TeamExperts& step, int expert, int row, int rows, float scale, float* y0,
                                 float* y1, float* out) const {
  float* y[2] = {y0, y1};
  for (std::size_t d = 0; d < step.dots.size(); ++d) {
    if (step.norm) k_.scale(y[d], scale, rows);
    if (const float* bias = step.dots[d].bias)
      k_.add(y[d], bias + std::ptrdiff_t{expert} * step.rows() + row, rows, y[d]);
    if (step.dots[d].scale != 1) k_.scale(y[d], step.dots[d].scale, rows);
  }
  if (step.gate == ExpertGate::clamped_swiglu) return k_.clamped_swiglu(y0, y1, step.alpha, step.limit, rows, out);
  if (step.gate == ExpertGate::situ) return k_.situ_gate(y0, y1, step.alpha, step.limit, rows, out);
  if (step.dots.size() == 2) return gate(step.activation, y0, y1, rows, out);
  activate(step.activation, y0, rows);
  if (out != y0) std::copy_n(y0, rows, out);
}

// One token is shared out by columns, many whole.
void TeamExecutor::run_step(Worker& worker, const TeamCombine& step) {
  const int tokens = static_cast<int>(ids_.size()), width = this->width(step.out), chosen = this->width(step.weights);
  const Share columns = tokens == 1 ? worker.share(width, simd::kTileRows) : Share{0, width};
  const Share share = tokens == 1 ? Share{0, 1} : worker.share(tokens);
  const int n = static_cast<int>(columns.end - columns.begin);
  for (int t = static_cast<int>(share.begin); t < share.end; ++t) {
    float* sum = at(step.out, tokens, t) + columns.begin;
    std::fill_n(sum, n, 0.0f);
    for (int c = 0; c < chosen; ++c)
      k_.add_scaled(at(step.made, tokens, t) + std::ptrdiff_t{c} * width + columns.begin,
                    at(step.weights, tokens, t)[c], n, sum);
    if (step.shared.valid())
      k_.add_scaled(at(step.shared, tokens, t) + columns.begin,
                    step.shared_gate.valid() ? sigmoid(*at(step.shared_gate, tokens, t)) : 1.0f, n, sum);
    if (step.scale != 1) k_.scale(sum, step.scale, n);
    if (step.x.valid()) k_.add(at(step.x, tokens, t) + columns.begin, sum, n, sum);
  }
}

}  // namespace fourfold::team
