// What the fast scan kernels take: one head's tokens as plain numbers.
//
//   S' = decay Diag(gate) S
//   none:     S <- S' + write k v^T
//   own_key:  S <- S' + k (write v - erase S'^T k)^T          the delta rules
//   pair:     S <- S' + erase b (S^T a)^T + write k v^T       diagonal plus low rank, as RWKV-7
//   out = S^T q, or with read_before (the old S)^T q + bonus v
// Lanes are columns of S. `steps` binds on memory when S comes from there, else on multiply-adds; `chunks` on the
// latter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fourfold/export.hpp>

namespace fourfold {

enum class Erase : std::uint8_t { none, own_key, pair };

struct ScanToken {
  const float *q, *k, *v;                  // [keys], [keys], [values]
  const float* gate = nullptr;             // [keys] where the run is gated
  const float *a = nullptr, *b = nullptr;  // [keys] for Erase::pair
  float* out = nullptr;                    // [values]
  float decay = 1, write = 1, erase = 0, bonus = 0;
};

struct ScanRun {
  const ScanToken* tokens;
  int count, keys, values;
  float* state;  // [keys, values]: read and left behind
  std::int64_t state_stride;
  bool gated = false, read_before = false;
  Erase erase = Erase::none;
  float* scratch;  // scan_scratch_floats(keys, values)
};

// Channels by themselves, as Mamba-1 has them: S(i, c) <- e^(d_c A(i, c)) S(i, c) + d_c v_c k_i, out_c = sum_i q_i S(i,
// c). Lanes are channels; exponentials bind.
struct ChannelToken {
  const float *q, *k;  // [keys]
  const float *v, *d;  // [channels]
  float* out;          // [channels]
};

struct ChannelRun {
  const ChannelToken* tokens;
  int count, keys, channels;
  float* state;  // [keys, channels]: read and left behind
  std::int64_t state_stride;
  const float* rate;  // A [keys, channels]
  std::int64_t rate_stride;
};

inline constexpr int kScanChunk = 16;  // tokens of one chunk
inline constexpr int kScanPanel = 64;  // columns of S that a chunk works on at a time

// Floats of scratch memory for any run of this size.
FOURFOLD_API std::size_t scan_scratch_floats(int keys, int values);

// The recurrence, token after token; the state is read and written once per token, in place. A token's bits depend on
// the tokens before it alone, not on how they were split into runs.
FOURFOLD_API void scan_steps(const ScanRun& run);
// Whole chunks of kScanChunk tokens in the WY form, the rest as scan_steps.
FOURFOLD_API void scan_chunks(const ScanRun& run);
// The recurrence, 16 channels at a time. A token's bits depend on the tokens before it alone.
FOURFOLD_API void scan_channels(const ChannelRun& run);

}  // namespace fourfold
