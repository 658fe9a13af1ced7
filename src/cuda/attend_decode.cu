// The instances of decode attention.
#include "cuda/sm90/attend_decode.cuh"
#include "cuda/sm90/attend_kinds.cuh"

namespace fourfold::cuda {

cudaError_t attend_decode(const Attention& a, const AttentionKind& kind, bool programmatic, cudaStream_t stream) {
  return sm90::with_kind(a, kind, [&]<class Kv, int kDim, class W, class S>(const W& walk, const S& score) {
    return sm90::launch_decode<Kv, kDim>(a, walk, score, programmatic, stream);
  });
}

}  // namespace fourfold::cuda
