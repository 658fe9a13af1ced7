// The CPU kernels: one table of plain functions per ISA level, chosen at run time.
//
// Every kernel takes raw pointers and counts, allocates nothing and keeps no state. Within one level each output's
// arithmetic chain depends on the storage and on K alone: never on how many tokens, rows or queries share a call. So
// decode equals prefill bit for bit, for any split of the work.
// Names: K columns of a weight row, T tokens, D head dimension. Lanes are rows (dots), keys or dimensions (attend).
#pragma once

#include <cstddef>
#include <cstdint>
#include <fourfold/status.hpp>
#include <fourfold/storage.hpp>

namespace fourfold {
struct ChannelRun;
struct ScanRun;
}  // namespace fourfold

namespace fourfold::simd {

// ---- activations: what a dot multiplies the weights with -----------------------------------------------------------

// How a row of activations is rounded before a dot takes it.
enum class Rounding : std::uint8_t {
  f32,   // K floats
  bf16,  // K bfloat16, padded with a zero to an even count
  q15,   // K / 32 QuantBlocks
};

// 32 activations as 15-bit integers with one scale, x ~ scale * (128 * high + low), and the sums that offset and
// minimum formats need. Two bytes, not one: int8 alone moves a small model's log-probabilities by 0.1 to 0.3 nat,
// enough to change what it says; the second product costs decode nothing, which waits for memory.
struct QuantBlock {
  std::int8_t high[32], low[32];  // |high| <= 127, |low| <= 64
  float scale;                    // max |x| / 16256
  float sum;                      // scale * sum of 128 * high + low: multiplies a format's minimum
  std::int32_t bias;              // -128 * that integer sum: undoes weights that are stored as w + 128
  std::int32_t half[2];           // the same for elements 0..15 and 16..31

  int value(int i) const { return 128 * high[i] + low[i]; }
};
static_assert(sizeof(QuantBlock) == 84);

// Bytes of one row of K prepared activations, rounded up to 64 so that rows stay aligned.
std::size_t prepared_bytes(Rounding kind, int k);

// ---- dots: out[t][row] = sum over k of W[row][k] * x[t][k] ---------------------------------------------------------

struct DotArgs {
  const std::uint8_t* tiles;  // ceil(rows / 16) consecutive tiles (tile.hpp), from a tile boundary
  int rows;                   // outputs written per token; the last tile may be partly used
  int k;
  const void* x;         // T prepared rows of the kind that the table names for this storage
  std::size_t x_stride;  // bytes between token rows; a multiple of 4
  int tokens;
  float* out;              // out[t * out_stride + row]
  std::size_t out_stride;  // floats
  // Token t's prepared row is x + index[t] * x_stride; null: index[t] = t.
  const std::int32_t* index = nullptr;

  [[gnu::always_inline]] const std::uint8_t* row(int t) const {
    return static_cast<const std::uint8_t*>(x) + static_cast<std::size_t>(index ? index[t] : t) * x_stride;
  }
};

// ---- attention: a fold with online softmax over leaves of 64 keys --------------------------------------------------

inline constexpr int kLeafKeys = 64;     // keys of one cache leaf
inline constexpr int kBlockKeys = 1024;  // keys of one block: a fresh state each, merged left to right
inline constexpr int kMaxHeadDim = 576;

// Of a head's key and value. keys_only: the value is the first entries of the key.
struct KvShape {
  int key, value;
  bool keys_only = false;
};

// One kv head's cache is a row of leaves (leaf.hpp) of 64 consecutive absolute positions. `type` is one of f32, f16,
// bf16, q8_0 (D % 32 == 0). Returns 0 for a type or D that has no cache. Leaves need 64-byte alignment.
std::size_t kv_leaf_bytes(Storage type, KvShape shape);
inline std::size_t kv_leaf_bytes(Storage type, int d) { return kv_leaf_bytes(type, {d, d}); }

// A smaller leaf holds `keys` positions, 1 .. 63, unaligned: a page that is a part of one. No kernel attends to it.
std::size_t kv_part_bytes(Storage type, KvShape shape, int keys);
// Copies `keys` positions of a head from one leaf to another: from slot `from_slot` of a leaf of `from_keys` on, to
// `to_slot` of one of `to_keys`.
void kv_copy(Storage type, KvShape shape, int keys, const std::uint8_t* from, int from_keys, int from_slot,
             std::uint8_t* to, int to_keys, int to_slot);

// One position of a leaf as a row of a file, in an order that no build changes: the numbers of the key, then of the
// value unless keys only, little-endian; q8_0 as blocks of an f16 scale and 32 int8.
std::size_t kv_row_bytes(Storage type, KvShape shape);
void kv_read_row(Storage type, KvShape shape, const std::uint8_t* leaf, int keys, int slot, std::uint8_t* row);
void kv_write_row(Storage type, KvShape shape, const std::uint8_t* row, std::uint8_t* leaf, int keys, int slot);

// A state is `O[D padded to 16], l[16], m, padding`, D that of values: the weighted sum of values, the sum of weights
// as 16 lane partials, and the exponent reference in log2 units (-inf when empty).
constexpr std::size_t state_floats(int d) { return static_cast<std::size_t>((d + 15) / 16 * 16 + 32); }

// A walk and a score of a caller's own, one leaf of one query at a time. `key`: the leaf's first in the block.
struct AttendHook {
  const void* self;
  // A bit for each of the leaf's keys. Null: all.
  std::uint64_t (*visible)(const void* self, int query, int key);
  // Maps the scaled and capped scores of the visible keys. Null: does not.
  void (*score)(const void* self, int query, int key, std::uint64_t visible, float* scores);
};

struct AttendArgs {
  Storage type;                       // of the cache
  KvShape shape;                      // each at most kMaxHeadDim
  const std::uint8_t* const* leaves;  // where the block's leaves lie, and the one behind: it is fetched ahead (or null)
  std::size_t offset;                 // bytes from there to this kv head's leaf
  int queries;                        // query rows of this kv head: heads of its group, positions, or both
  const float* const* q;      // query i: D floats, rotated; the same bits whatever rows share the call. Keys only:
                              //   zeros follow, up to a multiple of 16
  const std::int32_t* first;  // query i sees the keys [first[i], last[i]) of the block, 0 <= first, last <= 1024;
  const std::int32_t* last;   //   first >= last sees none. Keys nobody sees are never used (their leaves may be unset).
  float scale;                // on q . k
  float soft_cap;             // s -> cap * tanh(s / cap); 0 = none
  float* state;               // query i's fresh state of this block at state + i * state_stride
  std::size_t state_stride;   // floats, at least state_floats(shape.value)
  const AttendHook* hook = nullptr;  // narrows what [first, last) lets each query see
};

// How well each key of a leaf of keys only matches some heads' queries: the indexer of top-k sparse attention.
struct IndexArgs {
  Storage type;
  int d;
  const std::uint8_t* leaf;
  int heads;
  const float* q;        // [heads, d]
  const float* weights;  // [heads]
  float scale;
  float* scores;  // [64]: sum over heads, in order, of weights * max(0, scale * q . key)
};

// ---- scans (fourfold/scan_kernel.hpp) ------------------------------------------------------------------------------

inline constexpr int kScanTokens = 64;  // that the team prepares at once; whole chunks

// ---- the table -----------------------------------------------------------------------------------------------------

inline constexpr int kStorageCount = static_cast<int>(kStorages.size());
constexpr std::size_t index(Storage s) { return static_cast<std::size_t>(s); }

struct Kernels {
  const char* name;  // scalar, avx2, avx512

  // How dot[storage] takes its activations. dot_f32 (the --f32 mode: weights decoded exactly) always takes f32.
  Rounding rounding[kStorageCount];
  // x[K] (times weight[K] unless null: the norm's weight; its scalar follows the dot) -> one prepared row.
  void (*prepare[3])(const float* x, const float* weight, int k, void* out);  // by Rounding
  void (*dot[kStorageCount])(const DotArgs&);
  void (*dot_f32[kStorageCount])(const DotArgs&);

  // Writes k and v (null for keys only), rounded to the cache's precision, at a slot of a leaf of `keys` positions.
  void (*kv_append)(Storage type, std::uint8_t* leaf, int keys, int slot, const float* k, const float* v,
                    KvShape shape);
  void (*attend)(const AttendArgs&);
  void (*index_scores)(const IndexArgs&);
  // into <- into (+) from; merging with an empty state leaves the other one's bits.
  void (*merge)(float* into, const float* from, int d);
  // out[D] = O / l, an empty state gives 0. A sink is one more score without a value; null = none.
  void (*finish)(const float* state, int d, const float* sink, float* out);

  // Sum of squares: partials of 256 elements, added in order.
  float (*sum_squares)(const float* x, int n);
  void (*norm)(const float* x, const float* weight, float scale, int n, float* out);  // out = x * scale * weight
  void (*scale)(float* x, float factor, int n);
  void (*add)(const float* a, const float* b, int n, float* out);
  void (*soft_cap)(float* x, float cap, int n);                              // cap * tanh(x / cap)
  void (*silu_gate)(const float* gate, const float* up, int n, float* out);  // silu(gate) * up
  void (*gelu_gate)(const float* gate, const float* up, int n, float* out);  // gelu by tanh(gate) * up
  // Gates of experts (ExpertGate) and their weighted sum.
  void (*clamped_swiglu)(const float* gate, const float* up, float alpha, float limit, int n, float* out);
  void (*situ_gate)(const float* gate, const float* up, float alpha, float limit, int n, float* out);
  void (*add_scaled)(const float* x, float factor, int n, float* sum);  // sum += factor * x
  // Rotates the first `dims` of a head by cos[dims / 2], sin[dims / 2]: pairs (2i, 2i + 1) if interleaved, else
  // (i, i + dims / 2).
  void (*rope)(float* head, const float* cos, const float* sin, int dims, bool interleaved);
  // Index of the largest value: the lowest index among equals, NaN after everything.
  int (*argmax)(const float* x, int n);

  void (*scan_steps)(const ScanRun&);
  void (*scan_chunks)(const ScanRun&);
  void (*scan_channels)(const ChannelRun&);
  // out = log(1 + e^x), held to [low, high]; out may be x.
  void (*step_sizes)(const float* x, float low, float high, int n, float* out);
  void (*exps)(const float* x, float factor, int n, float* out);                 // e^(factor x); out may be x
  void (*sigmoids)(const float* x, float factor, int n, float* out);             // sigmoid(factor x); out may be x
  void (*multiply_add)(const float* weight, const float* x, int n, float* sum);  // sum += weight * x
  void (*sigmoid_gate)(const float* gate, const float* x, int n, float* out);    // sigmoid(gate) * x
};

// ---- choosing a level ----------------------------------------------------------------------------------------------

// What the processor and the operating system offer, as far as a level asks for it.
struct CpuFeatures {
  bool avx2, fma, f16c, os_ymm;
  bool f, bw, dq, vl, vnni, bf16, vbmi, os_zmm;  // AVX-512
};
CpuFeatures detect_features();

// The levels these features can run, best first; "scalar" is always the last.
struct Levels {
  const Kernels* table[3];
  int count;
};
Levels available_levels(const CpuFeatures& features);

// The best level, or the forced one ("scalar", "avx2", "avx512"; null or empty = best). An unknown or unavailable name
// is an error that lists the names this machine accepts.
result<const Kernels*> select_kernels(const char* forced, const CpuFeatures& features = detect_features());

// The level that the environment variable FOURFOLD_ISA forces, else the best; decided once. plan() reports the status
// of selected_kernels(); kernels() takes the best level where that status is an error.
const result<const Kernels*>& selected_kernels();
const Kernels& kernels();

}  // namespace fourfold::simd
