// Builder: what a model family calls to write its Program down, one step a call.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fourfold/program.hpp"

namespace fourfold {

// What a Project reads: a value, with the maps fused in front of its dots.
struct Input {
  Value value;
  std::optional<NormSpec> norm{};
  std::optional<AddNorm> add{};
};

inline Input rms(Value x, NormSpec norm) { return {x, norm, {}}; }
inline Input rms(Input in, NormSpec norm) {
  in.norm = norm;
  return in;
}

class Builder {
 public:
  // `tensors` grows while the family asks for weights; the finished Program takes it over.
  explicit Builder(std::vector<TensorSpec>& tensors) : tensors_(tensors) {}

  // Steps that follow are named "blk.3." + what each call adds.
  void layer(int index) { prefix_ = "blk." + std::to_string(index) + "."; }

  int rope(RopeSpec rope);  // its index, for Append::rope
  int cache(const CacheSpec& spec);
  int state(const StateSpec& spec);  // its index, for ScanStep::state and ShortConv::state

  Value embed(Weight table, float scale = 1);
  // x + norm(y), computed in front of the projection that reads it.
  Input add_norm(Value x, Value y, NormSpec post);
  // Query, key and value dots; keys and values go to the cache, the queries are returned.
  Value project(const char* name, Input in, std::vector<Dot> dots, Append append);
  // Norms as wide as the query and key dots are over all heads together.
  // With a fourth dot: {query, gate}, the second for Attend::gate.
  std::pair<Value, Value> project_gated(const char* name, Input in, std::vector<Dot> dots, Append append);
  Value project(const char* name, Input in, std::vector<Dot> dots, Gated gate);
  Value project(const char* name, Input in, Dot dot, AddTo add);
  Value project(const char* name, Input in, Dot dot, Store store = {});
  int width(Value value) const { return program_.width(value); }
  // A whole Value as an operand.
  Columns columns(Value value) const { return {.value = value, .width = program_.width(value)}; }
  // These give the step its state: of a scan [heads, K, V] from its operands, of a convolution from its weights.
  Value scan(ScanStep step);
  Value conv(ShortConv step);
  Value map(const char* name, MapStep step);
  Value project(const char* name, Input in, Dot dot, Turn turn);
  void project(const char* name, Input in, Dot dot, AppendKey append);
  Value attend(Value query, int cache, int heads, float scale, float soft_cap = 0);
  // Which `rule.chosen` experts each token is sent to.
  struct Routed {
    Value ids, weights;
  };
  Routed route(Input in, Dot router, const RouteRule& rule, Weight selection_bias = {});
  // Of the experts chosen; `shape` says the activation, and whether `in` has a row for each choice.
  Value experts(const char* name, Input in, Routed routed, std::vector<Dot> dots, Experts shape = {});
  // `sum` says what is added to the weighted sum of `made`.
  Value combine(Value made, Routed routed, Combine sum = {});
  // Any Attend; its out is made here.
  Value attend(Attend step);
  Program logits(Input in, Weight table, float soft_cap = 0) &&;

 private:
  Value value(const char* what, std::int64_t width);
  void push(const char* what, Input in, std::vector<Dot> dots, ProjectEpilogue epilogue, bool last_only = false);
  const TensorSpec& tensor(Weight w) const { return tensors_[static_cast<std::size_t>(w.id)]; }
  std::int64_t rows(const Dot& dot) const { return tensor(dot.weight).rows; }

  std::vector<TensorSpec>& tensors_;
  Program program_;
  std::string prefix_;
};

}  // namespace fourfold
