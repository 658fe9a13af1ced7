// Bytes, FLOPs and uses of each step: the figures behind explain, bench and the closing line of run.
#include <algorithm>
#include <initializer_list>

#include "fourfold/program.hpp"
#include "program/placement.hpp"
#include "program/visit.hpp"

namespace fourfold {
namespace {

// Keys read by `tokens` queries of one layer, the last of which sits at context - 1, summed over the queries.
double visible_keys(int window, int tokens, std::int64_t context) {
  double sum = 0;
  for (int t = 0; t < tokens; ++t) {
    const auto keys = context - tokens + t + 1;
    sum += static_cast<double>(window > 0 ? std::min<std::int64_t>(keys, window) : keys);
  }
  return sum;
}

double tensor_bytes(const Program& program, Weight w) {
  return w.valid() ? static_cast<double>(program.tensor(w).bytes()) : 0;
}

StepCost project_cost(const Program& program, const Project& s, int tokens) {
  StepCost c;
  if (tokens == 0) return c;
  for (const Dot& dot : s.dots) {
    const auto& t = program.tensor(dot.weight);
    c.weight_bytes +=
        tensor_bytes(program, dot.weight) + tensor_bytes(program, dot.bias) + tensor_bytes(program, dot.scales);
    c.flops += 2.0 * static_cast<double>(t.rows) * static_cast<double>(t.cols) * tokens;
  }
  if (s.norm) c.weight_bytes += tensor_bytes(program, s.norm->weight);
  if (s.add) c.weight_bytes += tensor_bytes(program, s.add->norm.weight);
  return c;
}

double bytes_per_number(Storage cache) { return info(cache).bits_per_element() / 8; }

// Sums over `tokens` queries of the smaller of the keys each sees and `most`.
double counted_keys(const CacheSpec& kv, int tokens, std::int64_t context, std::int64_t most) {
  const std::int64_t window = kv.window > 0 ? std::min<std::int64_t>(kv.window, most) : most;
  return visible_keys(static_cast<int>(std::min<std::int64_t>(window, 1 << 30)), tokens, context);
}

// The indexer of top keys reads every key of its own cache.
StepCost index_cost(const Program& program, const TopKeys& top, int tokens, std::int64_t context, Storage cache) {
  const CacheSpec& kv = program.caches[static_cast<std::size_t>(top.cache)];
  StepCost c;
  c.cache_bytes = static_cast<double>(context) * kv.head_dim * bytes_per_number(cache);
  c.flops = visible_keys(0, tokens, context) * top.heads * (2.0 * kv.head_dim + 2);
  return c;
}

StepCost attend_cost(const Program& program, const Attend& s, int tokens, std::int64_t context, Storage cache) {
  const CacheSpec& kv = program.caches[static_cast<std::size_t>(s.cache)];
  const std::int64_t most = s.top_keys ? s.top_keys->count : context;
  auto read = context - (kv.window > 0 ? std::max<std::int64_t>(0, context - tokens + 1 - kv.window) : 0);
  read = std::min<std::int64_t>(read, most * tokens);
  StepCost c = s.top_keys ? index_cost(program, *s.top_keys, tokens, context, cache) : StepCost{};
  c.cache_bytes += static_cast<double>(read) * static_cast<double>(kv.width()) * bytes_per_number(cache);
  c.weight_bytes += tensor_bytes(program, s.sinks);
  c.flops += counted_keys(kv, tokens, context, most) * s.heads * 2 * (kv.head_dim + kv.values());
  if (!s.latent) return c;
  for (Weight w : {s.latent->key_down, s.latent->value_up}) {  // as the absorbed form reads and multiplies them
    const TensorSpec& t = program.tensor(w);
    c.weight_bytes += tensor_bytes(program, w);
    c.flops += 2.0 * static_cast<double>(t.stack * t.rows) * static_cast<double>(t.cols) * tokens;
  }
  return c;
}

// A state is read and written whatever the number of tokens; 7 K V FLOP per token and head suit every mechanism.
StepCost scan_cost(const Program& program, const ScanStep& s, int tokens) {
  const StateSpec& state = program.states[static_cast<std::size_t>(s.state)];
  StepCost c;
  for (const Weight w : {s.rate, s.decay_bias, s.skip}) c.weight_bytes += tensor_bytes(program, w);
  c.state_bytes = 2.0 * static_cast<double>(state.bytes());
  c.flops = 7.0 * static_cast<double>(state.numbers()) * tokens;
  return c;
}

StepCost conv_cost(const Program& program, const ShortConv& s, int tokens) {
  const StateSpec& state = program.states[static_cast<std::size_t>(s.state)];
  StepCost c;
  c.weight_bytes = tensor_bytes(program, s.weights) + tensor_bytes(program, s.bias);
  c.state_bytes = 2.0 * static_cast<double>(state.bytes());
  c.flops = 2.0 * state.columns * (state.rows + 1) * tokens;
  return c;
}

StepCost map_cost(const Program& program, const MapStep& s, int tokens) {
  StepCost c;
  if (s.norm) c.weight_bytes = tensor_bytes(program, s.norm->weight);
  c.flops = 4.0 * s.in.count() * tokens;
  return c;
}

void read(StepUses& u, std::initializer_list<Columns> operands) {
  for (const Columns& c : operands)
    if (c.valid() && std::find(u.reads.begin(), u.reads.end(), c.value) == u.reads.end()) u.reads.push_back(c.value);
}

StepCost experts_cost(const Program& program, const Experts& s, int tokens) {
  const int chosen = program.width(s.ids);
  StepCost c;
  for (const Dot& dot : s.dots) {
    const auto& t = program.tensor(dot.weight);
    const auto experts = static_cast<double>(t.stack);
    c.weight_bytes += (tensor_bytes(program, dot.weight) + tensor_bytes(program, dot.bias)) *
                      distinct_experts(program, s, tokens) / experts;
    c.flops += 2.0 * static_cast<double>(t.rows) * static_cast<double>(t.cols) * tokens * chosen;
  }
  if (s.norm) c.weight_bytes += tensor_bytes(program, s.norm->weight);
  return c;
}

StepCost combine_cost(const Program& program, const Combine& s, int tokens) {
  StepCost c;
  c.flops = 2.0 * program.width(s.out) * program.width(s.weights) * tokens;
  return c;
}

void read_if_there(StepUses& uses, Value v) {
  if (v.valid()) uses.reads.push_back(v);
}

}  // namespace

StepUses uses(const Step& step) {
  StepUses u;
  const auto epilogue = Overloaded{[&](const Store& e) { u.writes.push_back(e.out); },
                                   [&](const AddTo& e) {
                                     u.reads.push_back(e.x);
                                     u.writes.push_back(e.out);
                                   },
                                   [&](const Gated& e) { u.writes.push_back(e.out); },
                                   [&](const Append& e) {
                                     u.writes.push_back(e.query);
                                     if (e.gate.valid()) u.writes.push_back(e.gate);
                                     if (e.row.valid()) u.writes.push_back(e.row);
                                   },
                                   [&](const Turn& e) { u.writes.push_back(e.out); },
                                   [&](const AppendKey& e) { u.writes.push_back(e.row); }};
  std::visit(Overloaded{[&](const Embed& s) { u.writes = {s.out}; },
                        [&](const Attend& s) {
                          u.reads = {s.query};
                          if (s.gate.valid()) u.reads.push_back(s.gate);
                          if (s.top_keys) u.reads.insert(u.reads.end(), {s.top_keys->query, s.top_keys->weights});
                          u.writes = {s.out};
                        },
                        [&](const RouteStep& s) {
                          u.reads = {s.logits};
                          u.writes = {s.ids, s.weights};
                        },
                        [&](const Experts& s) {
                          u.reads = {s.in, s.ids};
                          u.writes = {s.out};
                        },
                        [&](const Combine& s) {
                          u.reads = {s.made, s.weights};
                          for (Value v : {s.x, s.shared, s.shared_gate}) read_if_there(u, v);
                          u.writes = {s.out};
                        },
                        [&](const Project& s) {
                          if (s.add) {
                            u.reads = {s.add->x, s.add->y};
                            u.writes = {s.add->out};
                          } else {
                            u.reads = {s.in};
                          }
                          std::visit(epilogue, s.epilogue);
                        },
                        [&](const ScanStep& s) {
                          read(u, {s.query, s.key, s.value, s.decay, s.strength});
                          u.writes = {s.out};
                        },
                        [&](const ShortConv& s) {
                          for (const Columns& part : s.in) read(u, {part});
                          read(u, {s.gate_in, s.gate_out});
                          u.writes = {s.out};
                        },
                        [&](const MapStep& s) {
                          read(u, {s.in, s.gate, {.value = s.plus}});
                          u.writes = {s.out};
                        }},
             step.op);
  return u;
}

StepCost cost(const Program& program, const Step& step, int tokens, std::int64_t context, Storage cache, int wanted) {
  return std::visit(
      Overloaded{[&](const Embed& s) {
                   const auto& table = program.tensor(s.table);
                   return StepCost{tokens * tensor_bytes(program, s.table) / static_cast<double>(table.rows)};
                 },
                 [&](const Project& s) { return project_cost(program, s, s.last_only ? wanted : tokens); },
                 [&](const RouteStep& s) {
                   return StepCost{tensor_bytes(program, s.selection_bias), 0, 0};
                 },
                 [&](const Experts& s) { return experts_cost(program, s, tokens); },
                 [&](const Combine& s) { return combine_cost(program, s, tokens); },
                 [&](const Attend& s) { return attend_cost(program, s, tokens, context, cache); },
                 [&](const ScanStep& s) { return scan_cost(program, s, tokens); },
                 [&](const ShortConv& s) { return conv_cost(program, s, tokens); },
                 [&](const MapStep& s) { return map_cost(program, s, tokens); }},
      step.op);
}

StepCost cost(const Program& program, int tokens, std::int64_t context, Storage cache, int wanted) {
  StepCost total;
  for (const Step& step : program.steps) {
    const StepCost c = cost(program, step, tokens, context, cache, wanted);
    total.weight_bytes += c.weight_bytes;
    total.cache_bytes += c.cache_bytes;
    total.flops += c.flops;
    total.state_bytes += c.state_bytes;
  }
  return total;
}

}  // namespace fourfold
