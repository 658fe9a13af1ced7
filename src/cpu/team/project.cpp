// Project on the team: prepare the input, walk units of rows, finish them in place.
#include <algorithm>
#include <cstring>

#include "cpu/team/executor.hpp"
#include "program/visit.hpp"

namespace fourfold::team {
// Prepares one token's row into rows[kind]; returns the scalar that the dots' results are to be multiplied with.
float TeamExecutor::prepare_row(const TeamProject& step, int token, Local& local, bool keep_sum,
                                std::uint8_t* const rows[3]) {
  const int tokens = static_cast<int>(ids_.size());
  const float* x;
  if (step.add) {
    const float* y = at(step.add->y, tokens, token);
    float* sum = keep_sum ? at(step.add->out, tokens, token) : local.row.data();
    k_.norm(y, step.add->norm.weight, norm_scale(k_, y, step.width, step.add->norm.eps, step.add->norm.scale), step.width, sum);
    k_.add(at(step.add->x, tokens, token), sum, step.width, sum);
    x = sum;
  } else {
    x = at(step.in, tokens, token);
  }
  for (std::size_t kind = 0; kind < 3; ++kind)
    if (step.kinds[kind]) k_.prepare[kind](x, step.norm ? step.norm->weight : nullptr, step.width, rows[kind]);
  return step.norm ? norm_scale(k_, x, step.width, step.norm->eps, step.norm->scale) : 1.0f;
}

TeamExecutor::Prepared TeamExecutor::prepare(Worker& worker, const TeamProject& step, int first, int tokens) {
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const bool redundant = tokens <= kRedundantTokens;
  Prepared in{};
  for (std::size_t kind = 0; kind < 3; ++kind)
    if (step.kinds[kind]) in.rows[kind] = aligned(redundant ? local.prepared[kind] : prepared_[kind]);
  float* scale = redundant ? &local.scale : scale_.data();
  in.scale = step.norm ? scale : nullptr;
  const Share share = redundant ? Share{0, tokens} : worker.share(tokens);
  for (std::int64_t t = share.begin; t < share.end; ++t) {
    std::uint8_t* rows[3] = {};
    for (std::size_t kind = 0; kind < 3; ++kind)
      if (step.kinds[kind])
        rows[kind] = const_cast<std::uint8_t*>(in.rows[kind]) +
                     static_cast<std::size_t>(t) * simd::prepared_bytes(static_cast<simd::Rounding>(kind), step.width);
    const bool keep_sum = !redundant || worker.index == 0;
    scale[t] = prepare_row(step, first + static_cast<int>(t), local, keep_sum, rows);
  }
  if (!redundant) worker.barrier();
  return in;
}

void TeamExecutor::run_step(Worker& worker, const TeamProject& step) {
  const int all = static_cast<int>(ids_.size());
  const int tokens = step.last_only ? wanted_ : all;
  if (tokens == 0) return;
  const int first = all - tokens;
  const Prepared in = prepare(worker, step, first, tokens);
  Local& local = locals_[static_cast<std::size_t>(worker.index)];
  const std::vector<Unit>& units = tokens == 1 ? step.stretches : step.units;
  queue_.each(worker, static_cast<std::int64_t>(units.size()), [&](std::int64_t i) {
    const Unit& unit = units[static_cast<std::size_t>(i)];
    if (unit.rows > 0) run_unit(step, unit, in, tokens, local);
  });
}

void TeamExecutor::dot(const TeamDot& dot, const Unit& unit, const Prepared& in, int tokens, float* out,
                       std::size_t stride) const {
  dot.kernel({dot.matrix.tile(unit.row / simd::kTileRows), unit.rows, dot.matrix.cols,
              in.rows[static_cast<std::size_t>(dot.kind)], simd::prepared_bytes(dot.kind, dot.matrix.cols), tokens, out,
              stride});
  for (int t = 0; t < tokens; ++t) {
    float* row = out + static_cast<std::size_t>(t) * stride;
    if (in.scale) k_.scale(row, in.scale[t], unit.rows);
    if (dot.bias) k_.add(row, dot.bias + unit.row, unit.rows, row);
    if (dot.scale != 1) k_.scale(row, dot.scale, unit.rows);
  }
}

void TeamExecutor::run_unit(const TeamProject& step, const Unit& unit, const Prepared& in, int tokens, Local& local) {
  const auto n = static_cast<std::size_t>(unit.rows);
  const auto out_rows = [&](Value v, int token) { return at(v, static_cast<int>(ids_.size()), token) + unit.row; };
  std::visit(
      Overloaded{[&](const Store& e) {
                   dot(step.dots[0], unit, in, tokens, out_rows(e.out, 0), static_cast<std::size_t>(width(e.out)));
                   for (int t = 0; t < tokens; ++t) {
                     if (e.soft_cap > 0) k_.soft_cap(out_rows(e.out, t), e.soft_cap, unit.rows);
                     activate(e.activation, out_rows(e.out, t), unit.rows);
                   }
                 },
                 [&](const AddTo& e) {
                   dot(step.dots[0], unit, in, tokens, out_rows(e.out, 0), static_cast<std::size_t>(width(e.out)));
                   for (int t = 0; t < tokens; ++t) add_to(e, out_rows(e.x, t), unit.rows, out_rows(e.out, t));
                 },
                 [&](const Gated& e) {
                   dot(step.dots[0], unit, in, tokens, local.out.data(), n);
                   dot(step.dots[1], unit, in, tokens, local.out2.data(), n);
                   const auto gate = e.activation == Activation::silu ? k_.silu_gate : k_.gelu_gate;
                   for (int t = 0; t < tokens; ++t) {
                     const std::size_t row = static_cast<std::size_t>(t) * n;
                     gate(local.out.data() + row, local.out2.data() + row, unit.rows, out_rows(e.out, t));
                   }
                 },
                 [&](const Append& e) { append_heads(step, e, unit, in, tokens, local); }},
      step.epilogue);
}

void TeamExecutor::turn_head(float* head, const std::optional<TeamNorm>& norm, int rope, int token,
                             int head_dim) const {
  if (norm) k_.norm(head, norm->weight, norm_scale(k_, head, head_dim, norm->eps, norm->scale), head_dim, head);
  if (rope < 0) return;
  const RopeSpec& r = model_->program.ropes[static_cast<std::size_t>(rope)];
  const std::size_t row = static_cast<std::size_t>(token) * static_cast<std::size_t>(r.dims / 2);
  k_.rope(head, cos_[static_cast<std::size_t>(rope)].data() + row, sin_[static_cast<std::size_t>(rope)].data() + row,
          r.dims, r.interleaved);
}

void TeamExecutor::append_heads(const TeamProject& step, const Append& e, const Unit& unit, const Prepared& in,
                                int tokens, Local& local) {
  const int d = model_->program.caches[static_cast<std::size_t>(e.cache)].head_dim;
  const auto n = static_cast<std::size_t>(unit.rows);
  if (unit.dot == 0) {
    float* query = at(e.query, tokens) + unit.row;
    dot(step.dots[0], unit, in, tokens, query, static_cast<std::size_t>(width(e.query)));
    for (int t = 0; t < tokens; ++t)
      for (int row = 0; row < unit.rows; row += d)
        turn_head(query + static_cast<std::ptrdiff_t>(t) * width(e.query) + row, step.query_norm, e.rope, t, d);
    return;
  }
  dot(step.dots[1], unit, in, tokens, local.out.data(), n);
  dot(step.dots[2], unit, in, tokens, local.out2.data(), n);
  for (int t = 0; t < tokens; ++t)
    for (int row = 0; row < unit.rows; row += d) {
      float* key = local.out.data() + static_cast<std::size_t>(t) * n + row;
      const float* value = local.out2.data() + static_cast<std::size_t>(t) * n + row;
      turn_head(key, step.key_norm, e.rope, t, d);
      const int position = position_ + t;
      k_.kv_append(cache_.type(), cache_.leaf(e.cache, (unit.row + row) / d, position), position % simd::kLeafKeys, key,
                   value, d);
    }
}

}  // namespace fourfold::team
