// The announcer: one warp that counts up the arrivals of what the consumers made. A release waits until earlier stores
// are in L2, 1 to 2 us under load: the consumers post a task as done and go on with the next one meanwhile.
#pragma once

#include "cuda/persistent/machine.cuh"

namespace fourfold::cuda::persistent {

template <class S>
class Announcer {
 public:
  __device__ Announcer(const Launch& launch, Shared<S>& shared)
      : launch_(launch), shared_(shared), watch_{launch, shared} {}

  __device__ void run(Tasks tasks) {
    Place<kPosts> post;
    for (watch_.token = 0; watch_.token < launch_.tokens && !watch_.dead(); ++watch_.token)
      for (int i = 0; i < tasks.count() && !watch_.dead(); ++i) {
        const Record& r = tasks.take();
        const Arrivals all = arrivals(r);
        watch_.barrier(sm90::shared_address(&shared_.posted[post.at]), post.parity);
        for (int c = threadIdx.x % 32; c < all.counters && !watch_.dead(); c += 32)
          sm90::counter_add(launch_.count + (all.first + c) * kCounterWords, all.each);
        if (threadIdx.x % 32 == 0 && all.part >= 0 && !watch_.dead())
          sm90::counter_add(launch_.count + all.part * kCounterWords, 1);
        __syncwarp();
        if (threadIdx.x % 32 == 0) sm90::Barrier{sm90::shared_address(&shared_.announced[post.at])}.arrive();
        post.next();
      }
  }

 private:
  // `each` arrivals on every one of some counters in a row, and one on `part`.
  struct Arrivals {
    int first = 0, counters = 0, each = 1, part = -1;
  };

  __device__ Arrivals arrivals(const Record& r) const {
    const int chains = chains_in_use(launch_.position + watch_.token), head_outputs = r.queries * S::kDim;
    switch (static_cast<Kind>(r.kind)) {
      case Kind::project: {
        if (r.finish == static_cast<std::uint8_t>(Finish::logits)) return {};
        const int per_group = r.finish == static_cast<std::uint8_t>(Finish::gated) ? kGroupRows / 2 : kGroupRows;
        const int first = static_cast<int>(r.first_group) * per_group;
        return slices(r.out_counter, first, min(first + r.groups * per_group, static_cast<int>(r.rows)));
      }
      case Kind::attend:  // alone: no merge will follow
        return {r.out_counter, chains == 1 && r.share == 0 ? r.slices : 0, r.groups, r.parts};
      case Kind::merge: {
        if (chains == 1) return {};
        const int count = head_outputs / r.sharers, first = r.kv_head * head_outputs + r.share * count;
        return slices(r.out_counter, first, first + count);
      }
      case Kind::sample:
        return {launch_.sampled, 1};
    }
    return {};
  }
  // Of the slices that outputs [first, end) touch.
  static __device__ Arrivals slices(int counter, int first, int end) {
    const int slice = first / S::Tile::kColumns;
    return {counter + slice, (end - 1) / S::Tile::kColumns - slice + 1};
  }

  const Launch& launch_;
  Shared<S>& shared_;
  Watch<S> watch_;
};

}  // namespace fourfold::cuda::persistent
