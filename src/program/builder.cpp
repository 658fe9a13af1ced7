#include "program/builder.hpp"

namespace fourfold {

int Builder::rope(RopeSpec rope) {
  program_.ropes.push_back(std::move(rope));
  return static_cast<int>(program_.ropes.size()) - 1;
}

int Builder::cache(const CacheSpec& spec) {
  program_.caches.push_back(spec);
  return static_cast<int>(program_.caches.size()) - 1;
}

int Builder::state(const StateSpec& spec) {
  program_.states.push_back(spec);
  return static_cast<int>(program_.states.size()) - 1;
}

Value Builder::scan(ScanStep step) {
  const int keys = step.key.count() / step.key_heads;
  if (step.mechanism == Mechanism::rwkv4)
    step.state = state({1, 3, step.heads});
  else if (step.mechanism == Mechanism::mamba)
    step.state = state({1, keys, step.heads});
  else
    step.state = state({step.heads, keys, step.value.count() / step.heads});
  step.out = value("scan", step.value.count());
  program_.steps.push_back({prefix_ + "scan", step});
  return step.out;
}

Value Builder::conv(ShortConv step) {
  const TensorSpec& weights = tensor(step.weights);
  const int channels = static_cast<int>(step.mix ? weights.cols : weights.rows);
  step.state = state({1, step.mix ? 1 : static_cast<int>(weights.cols) - 1, channels});
  step.out = value("conv", channels);
  program_.steps.push_back({prefix_ + "conv", step});
  return step.out;
}

Value Builder::map(const char* what, MapStep step) {
  if (step.group == 0) step.group = step.in.count();
  step.out = value(what, step.in.count());
  program_.steps.push_back({prefix_ + what, step});
  return step.out;
}

Value Builder::value(const char* what, std::int64_t width) {
  program_.values.push_back({prefix_ + what, static_cast<int>(width)});
  return {static_cast<int>(program_.values.size()) - 1};
}

Value Builder::embed(Weight table, float scale) {
  const Value out = value("embed", tensor(table).cols);
  program_.steps.push_back({prefix_ + "embed", Embed{table, scale, out}});
  return out;
}

Input Builder::add_norm(Value x, Value y, NormSpec post) {
  const Value out = value("sum", program_.width(x));
  return {out, {}, AddNorm{x, y, post, out}};
}

void Builder::push(const char* what, Input in, std::vector<Dot> dots, ProjectEpilogue epilogue, bool last_only) {
  program_.steps.push_back(
      {prefix_ + what, Project{in.add, in.value, in.norm, std::move(dots), std::move(epilogue), last_only}});
}

Value Builder::project(const char* what, Input in, std::vector<Dot> dots, Append append) {
  append.query = value(what, rows(dots[0]));
  const int head_dim = program_.caches[static_cast<std::size_t>(append.cache)].head_dim;
  if (append.query_norm && tensor(append.query_norm->weight).cols > head_dim)
    append.row = value("key_value", rows(dots[1]) + rows(dots[2]));
  push(what, in, std::move(dots), append);
  return append.query;
}

std::pair<Value, Value> Builder::project_gated(const char* what, Input in, std::vector<Dot> dots, Append append) {
  append.gate = value("gate", rows(dots[3]));
  const Value query = project(what, in, std::move(dots), append);
  return {query, append.gate};
}

Value Builder::project(const char* what, Input in, std::vector<Dot> dots, Gated gate) {
  gate.out = value(what, rows(dots[0]));
  push(what, in, std::move(dots), gate);
  return gate.out;
}

Value Builder::project(const char* what, Input in, Dot dot, AddTo add) {
  add.out = value(what, rows(dot));
  push(what, in, {dot}, add);
  return add.out;
}

Value Builder::project(const char* what, Input in, Dot dot, Store store) {
  store.out = value(what, rows(dot));
  push(what, in, {dot}, store);
  return store.out;
}

Value Builder::project(const char* what, Input in, Dot dot, Turn turn) {
  turn.out = value(what, rows(dot));
  push(what, in, {dot}, turn);
  return turn.out;
}

void Builder::project(const char* what, Input in, Dot dot, AppendKey append) {
  append.row = value(what, rows(dot));
  push(what, in, {dot}, append);
}

Value Builder::attend(Value query, int cache, int heads, float scale, float soft_cap) {
  return attend({.query = query, .cache = cache, .heads = heads, .scale = scale, .soft_cap = soft_cap, .out = {}});
}

Value Builder::attend(Attend step) {
  const CacheSpec& kv = program_.caches[static_cast<std::size_t>(step.cache)];
  step.out = value(
      "attend", step.latent ? step.heads * tensor(step.latent->value_up).rows : std::int64_t{step.heads} * kv.values());
  program_.steps.push_back({prefix_ + "attend", step});
  return step.out;
}

Builder::Routed Builder::route(Input in, Dot router, const RouteRule& rule, Weight selection_bias) {
  const Value logits = project("router", in, router);
  std::get<Project>(program_.steps.back().op).exact = true;
  const Routed out{value("experts", rule.chosen), value("expert_weights", rule.chosen)};
  program_.steps.push_back({prefix_ + "route", RouteStep{logits, selection_bias, rule, out.ids, out.weights}});
  return out;
}

Value Builder::experts(const char* what, Input in, Routed routed, std::vector<Dot> dots, Experts shape) {
  shape.in = in.value;
  shape.norm = in.norm;
  shape.ids = routed.ids;
  shape.out = value(what, rows(dots[0]) * program_.width(routed.ids));
  shape.dots = std::move(dots);
  program_.steps.push_back({prefix_ + what, shape});
  return shape.out;
}

Value Builder::combine(Value made, Routed routed, Combine sum) {
  sum.made = made;
  sum.weights = routed.weights;
  sum.out = value("combine", program_.width(made) / program_.width(routed.weights));
  program_.steps.push_back({prefix_ + "combine", sum});
  return sum.out;
}

Program Builder::logits(Input in, Weight table, float soft_cap) && {
  prefix_.clear();
  program_.logits = value("logits", tensor(table).rows);
  push("logits", in, {{table, {}}}, Store{program_.logits, soft_cap}, true);
  program_.vocab = program_.width(program_.logits);
  program_.tensors = std::move(tensors_);
  return std::move(program_);
}

}  // namespace fourfold
