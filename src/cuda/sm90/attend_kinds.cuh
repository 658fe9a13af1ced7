// Which instance of an attention kernel an Attention needs.
#pragma once

#include "cuda/attend.hpp"
#include "cuda/sm90/attend.cuh"

namespace fourfold::cuda::sm90 {

// Calls f.operator()<Kv, stored dim>(walk, score); cudaErrorInvalidValue for a head dim beyond kMostHeadDim.
template <class Kv, class F>
cudaError_t with_dim(const Attention& a, const AttentionKind& kind, const F& f) {
  const Window walk{kind.window > 0 ? kind.window : kEveryKey};
  const auto at_dim = [&](const auto& score) {
    switch (a.layout.stored_dim()) {
      case 64:
        return f.template operator()<Kv, 64>(walk, score);
      case 128:
        return f.template operator()<Kv, 128>(walk, score);
      case 192:
        return f.template operator()<Kv, 192>(walk, score);
      case 256:
        return f.template operator()<Kv, 256>(walk, score);
      default:
        return cudaErrorInvalidValue;
    }
  };
  return kind.soft_cap > 0 ? at_dim(Scale{kind.scale} | SoftCap{kind.soft_cap}) : at_dim(Scale{kind.scale});
}

template <class F>
cudaError_t with_kind(const Attention& a, const AttentionKind& kind, const F& f) {
  switch (a.type) {
    case KvType::bf16:
      return with_dim<Kv16<Bf16>>(a, kind, f);
    case KvType::f16:
      return with_dim<Kv16<F16>>(a, kind, f);
    case KvType::f8:
      break;
  }
  return with_dim<Kv8>(a, kind, f);
}

}  // namespace fourfold::cuda::sm90
