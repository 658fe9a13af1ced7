// One row of the table of persistent kernels; each is compiled in a file of its own.
#pragma once

#include "cuda/persistent/instances.hpp"
#include "cuda/persistent/kernel.cuh"

namespace fourfold::cuda::persistent {

static_assert(kThreads == kCtaThreads);

template <Storage kStorage, int kDim>
Instance make_instance() {
  using S = Sizes<kStorage, kDim>;
  static_assert(sizeof(Shared<S>) <= kSharedBytes);
  return {kStorage, kDim, S::Tile::kColumns, reinterpret_cast<const void*>(&persistent_step<S>), sizeof(Shared<S>)};
}

}  // namespace fourfold::cuda::persistent
