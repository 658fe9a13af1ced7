// What the persistent kernel reads: a Plan with addresses in place of names. Plain data, the same on host and device.
#pragma once

#include <cstdint>

#include "cuda/persistent/plan.hpp"

namespace fourfold::cuda::persistent {

inline constexpr int kCounterWords = 32;  // a counter has 128 bytes to itself
inline constexpr int kMostCounters = 192;
inline constexpr int kMostQueries = 8;  // of a KV head
inline constexpr int kStamps = 4;
inline constexpr std::uint32_t kEmbedding = ~0u;  // instead of a place in the arena

// One task of one CTA; 16-byte aligned in memory.
struct alignas(16) Record {
  std::uint64_t tiles;   // project: first tile of the step; attend: the layer's cache
  std::uint64_t norm;    // project: weights of the norm before the dots; attend: of the queries'. 0: none
  std::uint64_t extra;   // project: bias; attend: weights of the keys' norm. 0: none
  std::uint64_t scales;  // project: of its rows. 0: none
  std::uint64_t turns;   // attend: {cos, sin} [position][head_dim / 2]; 0: no rotation
  std::uint32_t in, out,
      residual;           // floats from the arena's start, of the buffers; residual of an attend: its merge's out
  std::uint32_t columns;  // of the input
  std::uint32_t rows;     // outputs of the step
  std::uint32_t first_group;
  std::uint16_t groups, slices, first_slice;     // attend: slices of the KV head's outputs, `groups` arrivals on each
  std::uint16_t in_counter, out_counter, parts;  // of slice 0; of the KV head's partial states
  std::int16_t in_version;
  std::uint16_t phase;
  std::uint8_t kind, finish;
  float eps;
  std::uint16_t kv_head, share, sharers, queries, kv_heads, interleaved;
  float scale;  // attend: of scores, with log2(e)
};
static_assert(sizeof(Record) % 16 == 0);

struct CounterTarget {
  std::uint16_t arrivals, versions;
};

// What the watchdog found: a CTA that waited too long for a counter, in 64 bits; 0: nothing.
struct Stall {
  int found = 0, cta = 0, phase = 0, counter = 0, token = 0;

  constexpr unsigned long long packed() const {
    return static_cast<unsigned long long>(found) | static_cast<unsigned long long>(cta & 0xfff) << 4 |
           static_cast<unsigned long long>(phase & 0xffff) << 16 |
           static_cast<unsigned long long>(counter & 0xffff) << 32 |
           static_cast<unsigned long long>(token & 0xffff) << 48;
  }
  static constexpr Stall of(unsigned long long bits) {
    return {static_cast<int>(bits & 15), static_cast<int>(bits >> 4 & 0xfff), static_cast<int>(bits >> 16 & 0xffff),
            static_cast<int>(bits >> 32 & 0xffff), static_cast<int>(bits >> 48)};
  }
};

struct Launch {
  const Record* records;        // [CTA][stride]
  int stride;                   // the most tasks of a CTA
  const std::uint16_t* counts;  // tasks per CTA
  const CounterTarget* targets;
  int counters;
  std::uint32_t* count;  // [counters][kCounterWords], zeros at launch
  int sampled;           // counter
  float* arena;
  const std::uint8_t* embedding;  // tiles [row group][slice]
  float embedding_scale;
  int vocab;
  std::int64_t cache_head_bytes;  // of a KV head
  float* logits;                  // [tokens][vocab], or null
  unsigned long long* best;       // [tokens]: zeros at launch; the largest logit's key and id
  int* ids;                       // [tokens], of the host; or null
  int first_id, position, tokens;
  float inverse_temperature;  // 0: the largest logit
  std::uint64_t seed;
  unsigned long long* trace;  // [CTA][stride][kStamps] nanoseconds of the last token, or null
  unsigned long long* stall;  // a Stall, packed
  std::uint64_t patience;     // nanoseconds without progress
};

}  // namespace fourfold::cuda::persistent
