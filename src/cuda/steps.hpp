// The steps of a token beside its Projects and attention: the embedding in front, the choice of the next id behind.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/attend.hpp"
#include "cuda/weights.hpp"

namespace fourfold::cuda {

// Where a sequence stands: on the device, so that a token needs nothing from the host.
struct TokenState {
  int id;        // of the token that is evaluated now
  int position;  // its position
  int produced;  // ids sampled since the host last set this
};

// out = scale * row `state->id` of the table.
cudaError_t embed_token(const WeightRun& table, float scale, const TokenState* state, float* out, bool programmatic,
                        cudaStream_t stream);

// What is left to choose from: of the `k` best logits (value descending, id ascending, NaN last) the first that have
// `mass` of their probability together, and of those the ones with `share` of the best one's.
inline constexpr int kMostKept = 128;
inline constexpr int kMostFiltered = 80 * 4096;  // logits
struct Filter {
  const float* logits = nullptr;  // [vocab]
  int vocab = 0;
  int k = 0;                                 // 1 .. kMostKept; 0: there is no filter
  float mass = 1, share = 0;                 // 1 and 0: all
  unsigned long long* least = nullptr;       // the key of the last that stays
  unsigned* done = nullptr;                  // 0 between launches
  unsigned long long* candidates = nullptr;  // filter_bytes() of scratch
};
std::size_t filter_bytes(int vocab);
cudaError_t filter_logits(const Filter& filter, bool programmatic, cudaStream_t stream);

// The next id: of the largest logit (the lowest id among equals, NaN after everything), or, at a temperature, one drawn
// with probability softmax(logits / temperature): the largest logit / temperature plus Gumbel noise, a hash of seed,
// position and id.
struct Sampling {
  const float* logits = nullptr;  // [vocab]
  int vocab = 0;
  float inverse_temperature = 0;  // 0: the largest
  std::uint64_t seed = 0;
  unsigned long long* best = nullptr;  // two numbers, zeros between launches: the best key, blocks that are done
  TokenState* state = nullptr;         // moves on to the id and its position
  int* ids = nullptr;                  // of the host: id number `produced` goes to ids[produced % capacity]
  int capacity = 0;
  const unsigned long long* least = nullptr;  // a filter's; null: all
};
cudaError_t sample_token(const Sampling& sampling, bool programmatic, cudaStream_t stream);

// Random keys and values of unit scale at positions 0 .. positions - 1 of one layer.
cudaError_t fill_cache(const CacheLayout& layout, KvType type, std::byte* cache, int positions, std::uint64_t seed,
                       cudaStream_t stream);

}  // namespace fourfold::cuda
