// A Program lists the steps of one model step: what to compute, never how.
//
// T tokens of one sequence enter as ids and positions; every Value is a float32 array [T, width]. A Step is one move
// with its prologue and epilogue maps already fused. Executors run a Program; plan() checks and sizes it for one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fourfold/export.hpp"
#include "fourfold/storage.hpp"

namespace fourfold {

// An activation [T, width]; an index into Program::values.
struct Value {
  int id = -1;
  constexpr bool valid() const { return id >= 0; }
  friend constexpr bool operator==(Value, Value) = default;
};

// A weight; an index into Program::tensors.
struct Weight {
  int id = -1;
  constexpr bool valid() const { return id >= 0; }
  friend constexpr bool operator==(Weight, Weight) = default;
};

// What a weight is, before any bytes are read: rows x cols numbers in one storage.
struct TensorSpec {
  std::string name;  // as in the file
  Storage storage = Storage::f32;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  float add = 0;  // added to every element on load (norm weights stored as w stand for 1 + w in some families)

  std::int64_t bytes() const {
    const auto& s = info(storage);
    return rows * (cols / s.block_elements) * s.block_bytes;
  }
};

// Rotary embedding of the first `dims` entries of a head: pair i turns by position * inverse_frequency[i].
// Pairs are (2i, 2i+1) when interleaved, else (i, i + dims/2).                   Su et al. 2021
struct RopeSpec {
  int dims = 0;
  bool interleaved = false;
  std::vector<double> inverse_frequency;  // [dims / 2], any scaling already applied
};

// One layer's keys and values: [positions, kv_heads, head_dim] each.
struct CacheSpec {
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // keys further back are never read; 0: all are
};

// y = x * weight / sqrt(mean(x^2) + eps), over a row.                             Zhang & Sennrich 2019
struct NormSpec {
  Weight weight;
  float eps = 0;
};

// out = x + norm(y): the residual behind a post-norm, computed where its sum is next needed.
struct AddNorm {
  Value x;
  Value y;
  NormSpec norm;
  Value out;
};

enum class Activation : std::uint8_t { silu, gelu_tanh };

// ---- Steps ------------------------------------------------------------------------------------------------------

// out[t] = scale * table[ids[t]]
struct Embed {
  Weight table;
  float scale = 1;
  Value out;
};

// One matrix of a Project, a fold for each of its rows: y[r] = sum over i of weight[r, i] * in[i], plus bias[r].
struct Dot {
  Weight weight;
  Weight bias;  // may be absent
};

// Epilogues of a Project; y0, y1, ... are its dots' results in order.
struct Store {  // out = soft_cap * tanh(y0 / soft_cap), or y0 when soft_cap is 0
  Value out{};
  float soft_cap = 0;
};
struct AddTo {  // out = x + y0
  Value x;
  Value out{};
};
struct Gated {  // out = activation(y0) * y1
  Activation activation = Activation::silu;
  Value out{};
};
struct Append {  // query = rope(norm(y0)); rope(norm(y1)) and y2 are appended to the cache as key and value
  int cache = 0;
  int heads = 0;
  int rope = -1;                                     // index into Program::ropes; -1: none
  std::optional<NormSpec> query_norm{}, key_norm{};  // over each head
  Value query{};
};
using ProjectEpilogue = std::variant<Store, AddTo, Gated, Append>;

// Dots with one input: prologue (an AddNorm that makes the input, a norm of it), the dots, epilogue.
struct Project {
  std::optional<AddNorm> add;  // when set, in == add->out
  Value in;
  std::optional<NormSpec> norm;
  std::vector<Dot> dots;
  ProjectEpilogue epilogue;
  bool last_only = false;  // only for tokens whose logits are wanted
};

// out[t, h] = softmax(cap(scale * q k^T)) v over the keys a query may see: causal, and within the cache's window.
struct Attend {
  Value query;
  int cache = 0;
  int heads = 0;
  float scale = 1;
  float soft_cap = 0;  // 0: none
  Value out;
};

struct Step {
  std::string name;  // "blk.3.qkv": as explain prints it
  std::variant<Embed, Project, Attend> op;
};

struct ValueSpec {
  std::string name;
  int width = 0;
};

struct Program {
  std::string family;
  int context = 0;  // longest context the model was made for
  int vocab = 0;
  std::vector<TensorSpec> tensors;
  std::vector<ValueSpec> values;
  std::vector<RopeSpec> ropes;
  std::vector<CacheSpec> caches;
  std::vector<Step> steps;
  Value logits;  // [tokens wanted, vocab]

  const TensorSpec& tensor(Weight w) const { return tensors[static_cast<std::size_t>(w.id)]; }
  int width(Value v) const { return values[static_cast<std::size_t>(v.id)].width; }
};

// Values a step reads and writes, for liveness and checking.
struct StepUses {
  std::vector<Value> reads, writes;
};
FOURFOLD_API StepUses uses(const Step& step);

// What one step costs for `tokens` tokens when `context` positions are cached afterwards.
struct StepCost {
  double weight_bytes = 0;  // read once, however many tokens
  double cache_bytes = 0;   // keys and values read
  double flops = 0;         // multiply and add counted as two
  double bytes() const { return weight_bytes + cache_bytes; }
};
// cache: storage of keys and values; wanted: tokens whose logits are computed.
FOURFOLD_API StepCost cost(const Program& program, const Step& step, int tokens, std::int64_t context, Storage cache,
                           int wanted);
FOURFOLD_API StepCost cost(const Program& program, int tokens, std::int64_t context, Storage cache, int wanted);

}  // namespace fourfold
