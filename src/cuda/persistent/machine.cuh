// What the roles of a persistent CTA share: sizes, shared memory, rings, and waits that give up in time.
//
// Warps 0..7 consume, the next kLoaders bring activations, one announces what tasks made, the last one streams weights,
// keys and values through a ring of slots. A slot holds one weight tile, or panels (64 positions x 64 dims, 8 KB) of
// keys and values.
#pragma once

#include "cuda/cache.hpp"
#include "cuda/persistent/launch.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/pipe.cuh"
#include "cuda/sm90/tile.cuh"

namespace fourfold::cuda::persistent {

inline constexpr int kConsumerWarps = kTileStrips;
inline constexpr int kConsumers = kConsumerWarps * 32;
inline constexpr int kLoaders =
    6;  // warps; those that work are no more than slots, which their barriers' parity relies on
inline constexpr int kAnnouncer = kConsumerWarps + kLoaders, kProducer = kAnnouncer + 1;  // warps
inline constexpr int kThreads = (kProducer + 1) * 32;
inline constexpr int kPosts = 4;                               // tasks that are done and not announced yet
inline constexpr int kWarpKeys = kBlockKeys / kConsumerWarps;  // of a block, that one warp attends to
inline constexpr int kLeafWarps = kLeafKeys / kWarpKeys;
inline constexpr int kTokenAttends = 1 << 12;  // attends of one token are fewer
inline constexpr int kPanelBytes = kLeafKeys * kPanelDims * 2;
inline constexpr int kSharedBytes = 227 * 1024;  // of a CTA that has its SM to itself

// kStorage of the weights, kDim of a head; keys and values are bf16.
template <Storage kStorage, int kDim_>
struct Sizes {
  using Tile = cuda::Tile<kStorage>;
  using Parts = typename sm90::Strip<Tile>::Parts;
  static constexpr int kDim = kDim_;
  // One thread issues copies: a slot holds two row groups where tiles are small.
  static constexpr int kSlotTiles = Tile::kBytes <= 12 * 1024 ? 2 : 1;
  static constexpr int kTilesBytes = kSlotTiles * Tile::kBytes;
  static constexpr int kSlotBytes = ((kTilesBytes > kPanelBytes ? kTilesBytes : kPanelBytes) + 127) / 128 * 128;
  static constexpr int kPanels = kDim / kPanelDims;  // of a leaf's keys, or of its values
  static constexpr int kSlotPanels = kSlotBytes / kPanelBytes < 2 * kPanels ? kSlotBytes / kPanelBytes : 2 * kPanels;
  static constexpr int kLeafSlots = 2 * kPanels / kSlotPanels;
  // Activation slices in shared memory, as operands; queries and keys of an attend as numbers.
  static constexpr int kPartsBytes = kTileStrips * Parts::kStoredBytes;
  static constexpr int kSliceBytes = kPartsBytes > Tile::kColumns * 4 ? kPartsBytes : Tile::kColumns * 4;
  static constexpr int kSlices = (kSlotTiles == 1 ? 18 : 21) * 1024 / kSliceBytes;
  static constexpr int kWorkingLoaders = kLoaders < kSlices ? kLoaders : kSlices;
  static constexpr int kSumsBytes = kConsumerWarps * kMaxGroups * kGroupRows * 4;
  static constexpr int kFixedBytes = kSlices * kSliceBytes + kSumsBytes + 4 * 1024 + kMostCounters * 4 + 4096;
  static constexpr int kStages = (kSharedBytes - kFixedBytes) / kSlotBytes;
  // In flight: little near a phase's ends, where small loads would queue behind it.        lab: H200.md, slices
  static constexpr int kEdge = 256 * 1024 / Tile::kBytes;  // tiles
  static constexpr int slots_of(int bytes) { return (bytes + kSlotBytes / 2) / kSlotBytes; }
  static constexpr int kFlyEdge = slots_of(48 * 1024), kFly = slots_of(74 * 1024);
  // Registers a lane: the CTA is launched with 128 for each of its four warpgroups; two help and give some of theirs.
  static constexpr int kHelperRegisters = 112;
  static constexpr int kConsumerRegisters = 2 * 128 - kHelperRegisters;
  static_assert(kHelperRegisters % 8 == 0 && kConsumerRegisters % 8 == 0);
  static_assert(kTileRows == kGroupRows && Tile::kBytes % 16 == 0 && kFly < kStages && kLeafSlots < kStages);
};

template <class S>
struct Shared {
  alignas(1024) std::uint8_t ring[S::kStages * S::kSlotBytes];
  alignas(16) float slices[S::kSlices][S::kSliceBytes / 4];
  float sums[kConsumerWarps][kMaxGroups * kGroupRows];  // of a project's rows
  uint4 queries[S::kDim / 16][32];                      // operands of mma.sync, by lane
  float squares[S::kSlices];                            // of a slice, before its norm's weights
  float largest[kConsumerWarps][kMostQueries], sum[kConsumerWarps][kMostQueries];
  unsigned long long best[kConsumerWarps];
  CounterTarget targets[kMostCounters];
  Record records[kThreads / 32];  // what each warp works on
  unsigned long long full[S::kStages], empty[S::kStages], slice_full[S::kSlices], slice_empty[S::kSlices];
  unsigned long long posted[kPosts], announced[kPosts];
  volatile unsigned dead;  // nothing is waited for any more
  unsigned appended;       // attends of this CTA that wrote their token's key and value
};

// A place in a ring of kCount, with the parity that its barrier's current phase has.
template <int kCount>
struct Place {
  int at = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() { advance(1); }
  __device__ __forceinline__ void advance(int n) {  // n <= kCount
    at += n;
    if (at >= kCount) at -= kCount, parity ^= 1;
  }
};

// Waits of one role. A counter that does not move for too long is reported, and the CTA marked dead; a dead CTA waits
// for nothing, so that the kernel ends. Waits for barriers of the CTA look at the mark only: they are short, in many
// places, and stall because a counter did.
template <class S>
struct Watch {
  const Launch& launch;
  Shared<S>& shared;
  int phase = 0, token = 0;

  __device__ __forceinline__ bool dead() const { return shared.dead != 0; }
  __device__ __forceinline__ void barrier(std::uint32_t barrier, std::uint32_t parity) const {
    sm90::Barrier{barrier}.wait(parity, sm90::shared_address(const_cast<unsigned*>(&shared.dead)));
  }
  // Until version `version` of this token has arrived.
  __device__ __forceinline__ void counter(int index, int version) const {
    const CounterTarget target = shared.targets[index];
    const auto want = static_cast<std::uint32_t>((token * target.versions + version + 1) * target.arrivals);
    const std::uint32_t* at = launch.count + index * kCounterWords;
    std::uint64_t begin = 0;
    for (unsigned spins = 1; static_cast<int>(sm90::counter_peek(at) - want) < 0 && !dead(); ++spins)
      if (spins % 1024 == 0) look_up(begin, index);
    static_cast<void>(sm90::counter_read(at));
  }

 private:
  __device__ __forceinline__ void look_up(std::uint64_t& begin, int counter) const {
    const std::uint64_t now = sm90::global_nanoseconds();
    begin = begin == 0 ? now : begin;
    if (now - begin > launch.patience)
      atomicCAS(launch.stall, 0ull, Stall{1, static_cast<int>(blockIdx.x), phase, counter, token}.packed());
    if (*static_cast<volatile unsigned long long*>(launch.stall) != 0) shared.dead = 1;
  }
};

// Column `column` of a token's embedding, which lies in tiles as matrices do.
template <class Tile>
__device__ __forceinline__ float embedded(const Launch& launch, int id, int columns, int column) {
  const int slices = (columns + Tile::kColumns - 1) / Tile::kColumns;
  const std::int64_t tile = static_cast<std::int64_t>(id / kTileRows) * slices + column / Tile::kColumns;
  return launch.embedding_scale *
         tile_value<Tile>(launch.embedding + tile * Tile::kBytes, id % kTileRows, column % Tile::kColumns);
}
// The token that a step begins with. A stalled launch may hold anything: stay within the vocabulary.
__device__ __forceinline__ int token_id(const Launch& launch, int token) {
  if (token == 0) return launch.first_id;
  const unsigned long long best = __ldcg(launch.best + token - 1);
  return min(static_cast<int>(~static_cast<std::uint32_t>(best) & 0x7fffffffu), launch.vocab - 1);
}

// A CTA's tasks in turn, over and over, for one warp: a record lies in shared memory while the warp works on it, and
// the next one is fetched meanwhile, a word in each lane.
class Tasks {
 public:
  __device__ __forceinline__ Tasks(const Record* records, int count, Record& current)
      : records_(records), count_(count), current_(current) {
    fetch();
  }
  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ const Record& take() {
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (lane < kWords) reinterpret_cast<std::uint32_t*>(&current_)[lane] = word_;
    __syncwarp();
    at_ = at_ + 1 == count_ ? 0 : at_ + 1;
    fetch();
    return current_;
  }

 private:
  static constexpr int kWords = sizeof(Record) / 4;
  static_assert(kWords <= 32);

  __device__ __forceinline__ void fetch() {
    const int lane = threadIdx.x % 32;
    if (lane < kWords) word_ = __ldg(reinterpret_cast<const std::uint32_t*>(records_ + at_) + lane);
  }

  const Record* records_;
  int count_, at_ = 0;
  Record& current_;
  std::uint32_t word_ = 0;
};

// Blocks of a chain that hold positions up to `position`, first to last.
struct ChainBlocks {
  int leaf, end;  // first leaf of the block; leaves in all
  static constexpr int kLeaves = kBlockKeys / kLeafKeys, kStride = kChains * kLeaves;

  __device__ __forceinline__ ChainBlocks(int chain, int position)
      : leaf(chain * kLeaves), end(position / kLeafKeys + 1) {}
  __device__ __forceinline__ bool more() const { return leaf < end; }
  __device__ __forceinline__ void next() { leaf += kStride; }
  __device__ __forceinline__ bool first() const { return leaf < kStride; }
  __device__ __forceinline__ bool last() const { return leaf + kStride >= end; }
  __device__ __forceinline__ int leaves() const { return min(kLeaves, end - leaf); }
};
__device__ __forceinline__ int chain_of(int position) { return position / kBlockKeys % kChains; }
__device__ __forceinline__ int chains_in_use(int position) { return min(kChains, position / kBlockKeys + 1); }

}  // namespace fourfold::cuda::persistent
