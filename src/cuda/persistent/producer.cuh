// The producer: one thread streams the CTA's weights, keys and values in the order of its tasks. It waits for room in
// the ring, never for a dependency; bytes in flight are capped apart from the ring, as small loads queue behind them.
#pragma once

#include "cuda/persistent/machine.cuh"

namespace fourfold::cuda::persistent {

template <class S>
class Producer {
 public:
  __device__ Producer(const Launch& launch, Shared<S>& shared)
      : launch_(launch),
        shared_(shared),
        watch_{launch, shared},
        policy_(sm90::evict_first()),
        ring_at_(sm90::shared_address(shared.ring)),
        full_(sm90::shared_address(shared.full)),
        empty_(sm90::shared_address(shared.empty)),
        dead_(sm90::shared_address(const_cast<unsigned*>(&shared.dead))) {
    room_.parity = 1;  // every slot is empty
  }

  __device__ void run(Tasks tasks) {
    for (watch_.token = 0; watch_.token < launch_.tokens && !watch_.dead(); ++watch_.token)
      for (int i = 0; i < tasks.count() && !watch_.dead(); ++i) {
        const Record& r = tasks.take();
        watch_.phase = r.phase;
        if (threadIdx.x % 32 == 0 && r.kind == static_cast<std::uint8_t>(Kind::project)) project(r);
        if (threadIdx.x % 32 == 0 && r.kind == static_cast<std::uint8_t>(Kind::attend)) attend(r);
        __syncwarp();
      }
    while (flying_ > 0) land();
  }

 private:
  __device__ void project(const Record& r) {
    const int groups = r.groups, slices = r.slices, total = groups * slices;
    const std::int64_t group_bytes = static_cast<std::int64_t>(slices) * S::Tile::kBytes;
    const auto* tiles = reinterpret_cast<const std::uint8_t*>(r.tiles) + r.first_group * group_bytes;
    int slice = r.first_slice, done = 0;
    for (int s = 0; s < slices; ++s) {
      const std::uint8_t* at = tiles + static_cast<std::int64_t>(slice) * S::Tile::kBytes;
      for (int g = 0; g < groups; g += S::kSlotTiles) {
        const int cap = done < S::kEdge || total - done <= S::kEdge ? S::kFlyEdge : S::kFly;
        if (S::kSlotTiles == 1 || g + 1 == groups) {
          issue<1>(at, S::Tile::kBytes, 0, cap);
        } else {
          issue<S::kSlotTiles>(at, S::Tile::kBytes, group_bytes, cap);
        }
        at += S::kSlotTiles * group_bytes, done += S::kSlotTiles;
      }
      slice = slice + 1 == slices ? 0 : slice + 1;
    }
  }

  __device__ void attend(const Record& r) {
    const int position = launch_.position + watch_.token;
    const auto* head = reinterpret_cast<const std::uint8_t*>(r.tiles) + r.kv_head * launch_.cache_head_bytes;
    constexpr int kBytes = S::kSlotPanels * kPanelBytes;
    for (int chain = r.share; chain < kChains; chain += r.sharers)
      for (ChainBlocks blocks(chain, position); blocks.more(); blocks.next())
        for (int i = 0; i < blocks.leaves() * S::kLeafSlots; ++i) {
          const int leaf = blocks.leaf + i / S::kLeafSlots;
          if (watch_.token > 0 && leaf == (position - 1) / kLeafKeys) wait_for_last_token(r.in_version);
          const std::uint8_t* at = head + static_cast<std::int64_t>(leaf) * 2 * S::kPanels * kPanelBytes;
          issue<1>(at + i % S::kLeafSlots * kBytes, kBytes, 0, blocks.first() || blocks.last() ? S::kFlyEdge : S::kFly);
        }
  }

  // The token before wrote its key and value into this leaf, in this CTA.
  __device__ void wait_for_last_token(int layer) {
    const unsigned want = static_cast<unsigned>((watch_.token - 1) * kTokenAttends + layer + 1);
    while (static_cast<int>(*static_cast<volatile unsigned*>(&shared_.appended) - want) < 0 && !watch_.dead()) {
    }
    sm90::fence_bulk();
  }

  // kCount stretches of `bytes`, `stride` apart, into one slot. In a dead CTA nobody reads what they bring.
  template <int kCount>
  __device__ __forceinline__ void issue(const std::uint8_t* from, int bytes, std::int64_t stride, int cap) {
#pragma unroll 1
    while (flying_ >= cap) land();
    sm90::Barrier{empty_ + room_.at * 8}.wait(room_.parity, dead_);
    const sm90::Barrier full{full_ + room_.at * 8};
    full.expect(kCount * bytes);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      sm90::copy_bulk(ring_at_ + room_.at * S::kSlotBytes + i * bytes, from + i * stride, bytes, full, policy_);
    room_.next();
    ++flying_;
  }
  // Memory always answers: no need to watch.
  __device__ __forceinline__ void land() {
    sm90::Barrier{full_ + oldest_.at * 8}.wait(oldest_.parity);
    oldest_.next();
    --flying_;
  }

  const Launch& launch_;
  Shared<S>& shared_;
  Watch<S> watch_;
  std::uint64_t policy_;
  std::uint32_t ring_at_, full_, empty_, dead_;  // shared addresses
  Place<S::kStages> room_, oldest_;
  int flying_ = 0;
};

}  // namespace fourfold::cuda::persistent
