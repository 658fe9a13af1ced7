// A Program lists the steps of one model step: what to compute, never how.
//
// T tokens of one sequence enter as ids and positions; every Value is a float32 array [T, width]. A Step is one move
// with its prologue and epilogue maps already fused. Executors run a Program; plan() checks and sizes it for one.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fourfold/any.hpp"
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

// Rows of a file's tensor, counted through all its matrices: first, first + stride, ..., `count` of them.
struct TensorRows {
  std::string tensor;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

// How a file lays out what a weight is made from.
enum class TensorLayout : std::uint8_t {
  rows,       // as a weight: [matrices, rows, cols]
  columns,    // each matrix transposed: [matrices, cols, rows]
  turned,     // the same, where part m alone is matrix m, and blocks of any storage become float32
  mxfp4_pair  // gpt-oss: NAME_blocks [..., rows, cols / 32, 16], byte j elements 2j and 2j + 1; NAME_scales without 16
};

// What a weight is, before any bytes are read: `stack` matrices of rows x cols numbers in one storage, one after the
// other (an expert each; 1 elsewhere).
struct TensorSpec {
  std::string name;  // as in the file; of a weight made from parts, a name for messages
  Storage storage = Storage::f32;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  float add = 0;  // added to every element on load (norm weights stored as w stand for 1 + w in some families)
  std::int64_t stack = 1;
  std::vector<TensorRows> parts{};  // its rows, in order; empty: those of the tensor `name`
  TensorLayout layout = TensorLayout::rows;

  std::int64_t row_bytes() const {
    const auto& s = info(storage);
    return cols / s.block_elements * s.block_bytes;
  }
  std::int64_t bytes() const { return stack * rows * row_bytes(); }
};

// Rotary embedding of the `dims` entries of a head that follow its first `skip`: pair i turns by position *
// inverse_frequency[i] and grows by `scale`. Pairs are (2i, 2i+1) when interleaved, else (i, i + dims/2).
// Su et al. 2021; scale: the attention factor of Peng et al. 2023 (YaRN)
struct RopeSpec {
  int dims = 0;
  bool interleaved = false;
  std::vector<double> inverse_frequency;  // [dims / 2], any scaling already applied
  int skip = 0;
  double scale = 1;
};

// One layer's keys [positions, kv_heads, head_dim] and values [positions, kv_heads, values()].
struct CacheSpec {
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;          // keys further back are never read; 0: all are
  int value_dim = 0;       // 0: as the keys
  bool keys_only = false;  // no values are stored: the first values() entries of a key are its value

  int values() const { return value_dim > 0 ? value_dim : head_dim; }
  // Numbers stored for one position.
  std::int64_t width() const { return std::int64_t{kv_heads} * (head_dim + (keys_only ? 0 : values())); }
};

// Running state of one ScanStep or ShortConv: float32 numbers [heads, rows, columns] that a sequence carries from token
// to token, all 0 in front of its first. Of a scan: [heads, key dim, value dim]; of a convolution: [1, kernel - 1,
// channels], the oldest token first.
struct StateSpec {
  int heads = 1;
  int rows = 0;
  int columns = 0;

  std::int64_t numbers() const { return std::int64_t{heads} * rows * columns; }
  std::int64_t bytes() const { return numbers() * static_cast<std::int64_t>(sizeof(float)); }
};

// An operand that is part of a Value, times `scale`: `runs` runs of `width` columns, one every `stride` columns from
// `first` on, taken as one row. Projections pack what several steps read: [z, x, B, C, dt], or q, k, v, z per head.
struct Columns {
  Value value{};
  int first = 0;
  int width = 0;
  int runs = 1;
  int stride = 0;
  float scale = 1;

  constexpr bool valid() const { return value.valid(); }
  constexpr int count() const { return width * runs; }
  constexpr int at(int i) const { return first + i / width * stride + i % width; }  // column of the i-th number
};

// y = scale * x * weight / sqrt(mean(x^2) + eps), over a row.                             Zhang & Sennrich 2019
// With a bias: y = (x - mean) * weight / sqrt(variance + eps) + bias, scale 1.            Ba, Kiros & Hinton 2016
struct NormSpec {
  Weight weight;
  float eps = 0;
  float scale = 1;
  Weight bias{};
};

// out = x + norm(y): the residual behind a post-norm, computed where its sum is next needed.
struct AddNorm {
  Value x;
  Value y;
  NormSpec norm;
  Value out;
};

enum class Activation : std::uint8_t { silu, gelu_tanh, none, sigmoid, relu_squared };

// ---- Steps ------------------------------------------------------------------------------------------------------

// out[t] = scale * table[ids[t]]
struct Embed {
  Weight table;
  float scale = 1;
  Value out;
};

// One matrix of a Project, a fold for each of its rows: y[r] = scale * (scales[r] * (sum over i of weight[r, i] *
// in[i])
// + bias[r]).
struct Dot {
  Weight weight;
  Weight bias{};  // may be absent
  float scale = 1;
  Weight scales{};  // may be absent: [rows], or [rows / 128, cols / 128] (rounded up), one for each 128 x 128 weights
};

// Epilogues of a Project; y0, y1, ... are its dots' results in order.
struct Store {  // out = activation(soft_cap * tanh(y0 / soft_cap)); a soft_cap of 0 caps nothing
  Value out{};
  float soft_cap = 0;
  Activation activation = Activation::none;
};
struct AddTo {  // out = x + y0
  Value x;
  Value out{};
};
struct Gated {  // out = activation(y0) * y1
  Activation activation = Activation::silu;
  Value out{};
};
struct Append {  // query = rope(norm(y0)); rope(norm(y1)) and y2 are appended to the cache as key and value; gate = y3
  int cache = 0;
  int heads = 0;
  int rope = -1;                                     // index into Program::ropes; -1: none
  std::optional<NormSpec> query_norm{}, key_norm{};  // over each head; with `row`, over the heads of a token together
  Value query{};
  Value gate{};  // for Attend::gate; may be absent, and y3 with it
  Value row{};   // [T, keys | values] as they are appended; present where the norms are over all heads
};
struct Turn {  // out = rope(norm(y0)), head by head
  int heads = 0;
  int rope = -1;
  std::optional<NormSpec> norm{};
  Value out{};
};
struct AppendKey {  // row = y0; rope(norm(row)) is appended to a cache of keys only; the norm is over its first
                    // entries,
  int cache = 0;    // as many as the norm has weights
  int rope = -1;
  std::optional<NormSpec> norm{};
  Value row{};
};
using ProjectEpilogue = std::variant<Store, AddTo, Gated, Append, Turn, AppendKey>;

// Dots with one input: prologue (an AddNorm that makes the input, a norm of it), the dots, epilogue.
struct Project {
  std::optional<AddNorm> add;  // when set, in == add->out
  Value in;
  std::optional<NormSpec> norm;
  std::vector<Dot> dots;
  ProjectEpilogue epilogue;
  bool last_only = false;  // only for tokens whose logits are wanted
  bool exact = false;      // with float32 activations whatever the others take: a router's
};

// Multi-head latent attention: the cache keeps one vector c [rank] and one rotated part [rotary] per position, for all
// heads. Head h has the keys (key_up_h c, rotated part) and the values value_up_h c (the expanded form); or else the
// queries key_down_h q over c itself, and value_up_h of what they gather (the absorbed form). Equal but for rounding.
// DeepSeek-AI 2024 (DeepSeek-V2), section 2.1
struct Latent {
  Weight key_up;    // a stack of heads, [nope, rank] each
  Weight key_down;  // a stack of heads, [rank, nope] each: key_up, transposed
  Weight value_up;  // a stack of heads, [value dim, rank] each
};

// Only the `count` keys of the largest score are attended to: sum over heads of weights[h] * max(0, scale * query_h .
// key), among the keys that are visible anyway; ties to the lower position. The keys are those of a cache of their own.
// DeepSeek-AI 2025 (DeepSeek-V3.2), equation 1
struct TopKeys {
  Value query;    // [T, heads * head_dim]
  Value weights;  // [T, heads]
  int cache = 0;
  int heads = 0;
  int count = 0;
  float scale = 1;
};

// out[t, h] = softmax(score(cap(scale * q k^T))) v, times sigmoid(gate) where there is one, over the keys a query may
// see: causal, within the cache's window, visible to the walk and among the top keys.
struct Attend {
  Value query;  // [T, heads * head_dim]; with a latent [T, heads * (nope + rotary)]
  int cache = 0;
  int heads = 0;
  float scale = 1;
  float soft_cap = 0;  // 0: none
  Value out;
  Weight sinks{};  // [heads] logits that take weight and give no value; may be absent
  Value gate{};    // [T, width of out]; may be absent
  std::optional<Latent> latent{};
  std::optional<TopKeys> top_keys{};
  AnyWalk walk{};    // empty: every key
  AnyScore score{};  // empty: as it is
};

// How a ScanStep's state S [key dim, value dim] of a head changes, and what is read from it. q, k, v: a token's query,
// key and value; d = softplus(decay + decay_bias) within [step_low, step_high]; A: the decay rate, -exp(rate) where the
// file stores logarithms; b = strength_scale * sigmoid(strength).
enum class Mechanism : std::uint8_t {
  retention,    // S <- e^rate S + k v^T, rate per head                                          Sun et al. 2023
  mamba,        // S <- e^(d A) S + d k v^T, A per head and key; a head is one channel; the state of all is
                // [keys, heads]                                                                    Gu and Dao 2023
  mamba2,       // the same with A per head                                                      Dao and Gu 2024
  gated_delta,  // S <- e^(d A) (I - b k k^T) S + b k v^T, A per head                    Yang, Kautz, Hatamizadeh 2024
  kimi_delta,   // S <- (I - b k k^T) Diag(e^(d A)) S + b k v^T, d per head and key      Kimi Linear report 2025, eq. 1
  rwkv4,        // channels apart: a mean of the values so far, weighted by e^key, fading by e^A a token, the newest by
                // e^(key + skip); S is [sum of weighted values, of weights, exponent of both]        Peng et al. 2023
};

// out[t, h] = S^T q + skip v, S being head h's state after token t. Head h reads query and key head
// h / (heads / key_heads).
struct ScanStep {
  Mechanism mechanism = Mechanism::retention;
  int state = 0;  // index into Program::states
  int heads = 0;
  int key_heads = 0;
  Columns query{}, key{};  // [key_heads, key dim]
  Columns value{};         // [heads, value dim]
  Columns decay{};         // [heads], of kimi_delta [heads, key dim]; absent in retention
  Columns strength{};      // [heads], of the delta rules
  Weight rate{};           // [heads], of mamba [heads, key dim]
  bool rate_is_log = true;
  std::vector<float> rates{};  // [heads], instead of `rate`, where no file stores them
  Weight decay_bias{};         // as many as `decay`; may be absent
  Weight skip{};               // [heads] or one number for all; may be absent
  float step_low = 0;
  float step_high = std::numeric_limits<float>::infinity();
  float floor = 0;  // of kimi_delta: below 0, the log decay is floor * sigmoid(-A (decay + decay_bias)) instead of d A
  float query_scale = 1;
  float strength_scale = 1;
  float unit_eps = 0;  // above 0: queries and keys are divided by sqrt(sum of squares + unit_eps), per head
  Value out{};
};

// A convolution over the last `kernel` tokens, each channel by itself; the kernel's last column meets the newest token.
// out = gate_out * activation(bias + sum over j of weights[c, j] * x[t - kernel + 1 + j, c]), x = gate_in * in.
struct ShortConv {
  int state = 0;                  // index into Program::states
  std::vector<Columns> in{};      // joined: the channels
  Columns gate_in{}, gate_out{};  // [channels]; may be absent
  Weight weights{};               // [channels, kernel]
  bool mix = false;               // weights are m [channels] and stand for a kernel of 2, (1 - m, m): a token shift
  Weight bias{};                  // may be absent
  Activation activation = Activation::none;
  Value out{};
};

// A map that no neighbour can take in: a norm over groups of a row, with a gate behind or in front of it.
// out = plus + norm(in) * activation(gate), or plus + norm(in * activation(gate)) when `gate_first`.
struct MapStep {
  Columns in{};
  Columns gate{};  // a number for each of `in`, or for each group; may be absent
  Activation activation = Activation::silu;
  bool gate_first = false;
  Value plus{};                    // may be absent
  std::optional<NormSpec> norm{};  // its weight: one for each number of the row, or for each of a group
  int group = 0;                   // numbers normed together; 0: the row
  Value out{};
};

// How router logits become choices, as data; route_rules.hpp has each kind as a policy type.
struct RouteRule {
  enum class Score : std::uint8_t { softmax, sigmoid, sqrt_softplus };
  Score score = Score::softmax;
  int chosen = 1;            // experts per token
  bool renormalise = false;  // weights are divided by the sum of those chosen
  float scale = 1;           // of the final weights
  int groups = 1;            // equal groups of neighbouring experts, of which
  int kept_groups = 1;       // so many stay: those with the largest sum of their
  int group_best = 1;        // best so many scores (1: DeepSeek-V2, 2: DeepSeek-V3)
};

// Which experts each token is sent to, and how much each counts.
struct RouteStep {
  Value logits;             // [T, experts], of an exact Project
  Weight selection_bias{};  // [experts], added to the scores that select, never to weights; may be absent
  RouteRule rule{};
  Value ids{};      // [T, chosen] whole numbers in [0, experts), best first, distinct
  Value weights{};  // [T, chosen]
};

// How an expert's two products meet.
enum class ExpertGate : std::uint8_t {
  plain,           // activation(y0) y1
  clamped_swiglu,  // g sigmoid(alpha g) (u + 1), g = min(y0, limit), u = y1 within +-limit                   gpt-oss
  situ             // alpha tanh(y0 / alpha) sigmoid(y0) limit tanh(y1 / limit)                               Kimi K3
};

// Dots of the experts chosen only: choice c of token t is out[t, c] = gate(y0, y1), or activation(y0) of a single dot,
// y being the products of expert ids[t, c]'s matrices with norm(in[t]), or with in[t, c] when `per_choice` (without
// norm).
struct Experts {
  Value in{};  // [T, width], or [T, chosen, width] when per_choice
  bool per_choice = false;
  std::optional<NormSpec> norm{};
  Value ids{};
  std::vector<Dot> dots{};  // weights and biases of all experts, stacked
  Activation activation = Activation::none;
  ExpertGate gate = ExpertGate::plain;
  float alpha = 0, limit = 0;  // of the gates that have them
  Value out{};                 // [T, chosen, rows]
};

// out[t] = x[t] + scale * (sum over c, in order, of weights[t, c] * made[t, c] + sigmoid(shared_gate[t]) * shared[t])
struct Combine {
  Value x{};  // may be absent
  Value made{}, weights{};
  Value shared{};       // [T, width], of experts that every token uses; may be absent
  Value shared_gate{};  // [T, 1]; absent: a factor of 1
  float scale = 1;
  Value out{};
};

struct Step {
  std::string name;  // "blk.3.qkv": as explain prints it
  std::variant<Embed, Project, Attend, ScanStep, ShortConv, MapStep, RouteStep, Experts, Combine> op;
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
  std::vector<StateSpec> states;
  std::vector<Step> steps;
  Value logits;  // [tokens wanted, vocab]

  const TensorSpec& tensor(Weight w) const { return tensors[static_cast<std::size_t>(w.id)]; }
  bool scaled_by_row(const Dot& dot) const { return tensor(dot.scales).cols == tensor(dot.weight).rows; }
  int width(Value v) const { return values[static_cast<std::size_t>(v.id)].width; }
  std::int64_t state_numbers() const {  // of one sequence, all layers
    std::int64_t sum = 0;
    for (const StateSpec& s : states) sum += s.numbers();
    return sum;
  }
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
  double state_bytes = 0;   // running states read and written, once however many tokens
  double bytes() const { return weight_bytes + cache_bytes + state_bytes; }
};
// cache: storage of keys and values; wanted: tokens whose logits are computed.
FOURFOLD_API StepCost cost(const Program& program, const Step& step, int tokens, std::int64_t context, Storage cache,
                           int wanted);
FOURFOLD_API StepCost cost(const Program& program, int tokens, std::int64_t context, Storage cache, int wanted);

}  // namespace fourfold
