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
    k_.norm(y, step.add->norm.weight, norm_scale(k_, y, step.width, step.add->norm.eps, step.add->norm.scale),
            step.width, sum);
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
                   for (int t = 0; t < tokens; ++t)
                     k_.add(out_rows(e.x, t), out_rows(e.out, t), unit.rows, out_rows(e.out, t));
                 },
                 [&](const Gated& e) {
                   dot(step.dots[0], unit, in, tokens, local.out.data(), n);
                   dot(step.dots[1], unit, in, tokens, local.out2.data(), n);
                   for (int t = 0; t < tokens; ++t) {
                     const std::size_t row = static_cast<std::size_t>(t) * n;
                     gate(e.activation, local.out.data() + row, local.out2.data() + row, unit.rows, out_rows(e.out, t));
                   }
                 },
                 [&](const Append& e) { append_heads(step, e, unit, in, tokens, local); },
                 [&](const Turn& e) {
                   const auto stride = static_cast<std::size_t>(width(e.out));
                   dot(step.dots[0], unit, in, tokens, out_rows(e.out, 0), stride);
                   turn_heads(out_rows(e.out, 0), stride, unit, width(e.out) / e.heads, step.query_norm, e.rope,
                              tokens);
                 },
                 [&](const AppendKey& e) { append_key(step, e, unit, in, tokens); }},
      step.epilogue);
}

void TeamExecutor::normalise(float* x, const TeamNorm& norm) const {
  const int n = norm.width;
  if (norm.bias) {
    float mean = 0;
    for (int i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<float>(n);
    for (int i = 0; i < n; ++i) x[i] -= mean;
  }
  k_.norm(x, norm.weight, norm_scale(k_, x, n, norm.eps, norm.scale), n, x);
  if (norm.bias) k_.add(x, norm.bias, n, x);
}

void TeamExecutor::turn_head(float* head, const std::optional<TeamNorm>& norm, int rope, int token) const {
  if (norm) normalise(head, *norm);
  if (rope < 0) return;
  const RopeSpec& r = model_->program.ropes[static_cast<std::size_t>(rope)];
  const std::size_t row = static_cast<std::size_t>(token) * static_cast<std::size_t>(r.dims / 2);
  k_.rope(head + r.skip, cos_[static_cast<std::size_t>(rope)].data() + row,
          sin_[static_cast<std::size_t>(rope)].data() + row, r.dims, r.interleaved);
}

void TeamExecutor::turn_heads(float* rows, std::size_t stride, const Unit& unit, int head_dim,
                              const std::optional<TeamNorm>& norm, int rope, int tokens) const {
  for (int t = 0; t < tokens; ++t)
    for (int row = 0; row < unit.rows; row += head_dim)
      turn_head(rows + static_cast<std::size_t>(t) * stride + row, norm, rope, t);
}

void TeamExecutor::append_heads(const TeamProject& step, const Append& e, const Unit& unit, const Prepared& in,
                                int tokens, Local& local) {
  if (e.row.valid() && unit.dot != 3) return append_rows(step, e, unit, in, tokens);
  const auto [key_dim, value_dim, keys_only] = cache_.shape(e.cache);
  if (unit.dot != 1) {
    const Value to = unit.dot == 0 ? e.query : e.gate;
    const auto stride = static_cast<std::size_t>(width(to));
    float* rows = at(to, tokens) + unit.row;
    dot(step.dots[static_cast<std::size_t>(unit.dot)], unit, in, tokens, rows, stride);
    if (unit.dot == 0) turn_heads(rows, stride, unit, key_dim, step.query_norm, e.rope, tokens);
    return;
  }
  const int heads = unit.rows / key_dim, first = unit.row / key_dim;
  const Unit values{2, first * value_dim, heads * value_dim, 0};
  const auto keys_stride = static_cast<std::size_t>(unit.rows), values_stride = static_cast<std::size_t>(values.rows);
  dot(step.dots[1], unit, in, tokens, local.out.data(), keys_stride);
  dot(step.dots[2], values, in, tokens, local.out2.data(), values_stride);
  turn_heads(local.out.data(), keys_stride, unit, key_dim, step.key_norm, e.rope, tokens);
  for (int t = 0; t < tokens; ++t)
    for (int h = 0; h < heads; ++h) {
      const int position = position_ + t;
      k_.kv_append(cache_.type(), cache_.part(e.cache, first + h, position), cache_.keys(), position % cache_.keys(),
                   local.out.data() + static_cast<std::size_t>(t) * keys_stride + h * key_dim,
                   local.out2.data() + static_cast<std::size_t>(t) * values_stride + h * value_dim,
                   {key_dim, value_dim, keys_only});
    }
}

// Norms over all heads: the last worker to finish its heads norms, turns and appends them all.
void TeamExecutor::append_rows(const TeamProject& step, const Append& e, const Unit& unit, const Prepared& in,
                               int tokens) {
  const auto [key_dim, value_dim, keys_only] = cache_.shape(e.cache);
  const int keys = step.dots[1].matrix.rows, all = step.dots[0].matrix.rows + keys;
  if (unit.dot == 0) {
    dot(step.dots[0], unit, in, tokens, at(e.query, tokens) + unit.row, static_cast<std::size_t>(width(e.query)));
  } else {
    const Unit values{2, unit.row / key_dim * value_dim, unit.rows / key_dim * value_dim, 0};
    const auto stride = static_cast<std::size_t>(width(e.row));
    dot(step.dots[1], unit, in, tokens, at(e.row, tokens) + unit.row, stride);
    dot(step.dots[2], values, in, tokens, at(e.row, tokens) + keys + values.row, stride);
  }
  std::atomic<int>& done = done_.front();
  if (done.fetch_add(unit.rows, std::memory_order_acq_rel) + unit.rows < all) return;
  done.store(0, std::memory_order_relaxed);
  for (int t = 0; t < tokens; ++t) append_row(step, e, t);
}

void TeamExecutor::append_row(const TeamProject& step, const Append& e, int token) {
  const simd::KvShape shape = cache_.shape(e.cache);
  const int tokens = static_cast<int>(ids_.size()), position = position_ + token, keys = step.dots[1].matrix.rows;
  float *query = at(e.query, tokens, token), *key = at(e.row, tokens, token), *value = key + keys;
  normalise(query, *step.query_norm);
  normalise(key, *step.key_norm);
  for (int h = 0; h < e.heads; ++h) turn_head(query + h * shape.key, {}, e.rope, token);
  for (int h = 0; h < keys / shape.key; ++h) {
    turn_head(key + h * shape.key, {}, e.rope, token);
    k_.kv_append(cache_.type(), cache_.part(e.cache, h, position), cache_.keys(), position % cache_.keys(),
                 key + h * shape.key, value + h * shape.value, shape);
  }
}

// The last worker to finish its rows of the key norms, turns and appends it.
void TeamExecutor::append_key(const TeamProject& step, const AppendKey& e, const Unit& unit, const Prepared& in,
                              int tokens) {
  const int n = width(e.row);
  dot(step.dots[0], unit, in, tokens, at(e.row, tokens) + unit.row, static_cast<std::size_t>(n));
  std::atomic<int>& done = done_.front();
  if (done.fetch_add(unit.rows, std::memory_order_acq_rel) + unit.rows < n) return;
  done.store(0, std::memory_order_relaxed);
  for (int t = 0; t < tokens; ++t) {
    std::copy_n(at(e.row, tokens, t), n, key_.data());
    turn_head(key_.data(), step.query_norm, e.rope, t);
    const int position = position_ + t;
    k_.kv_append(cache_.type(), cache_.part(e.cache, 0, position), cache_.keys(), position % cache_.keys(), key_.data(),
                 nullptr, cache_.shape(e.cache));
  }
}

}  // namespace fourfold::team
