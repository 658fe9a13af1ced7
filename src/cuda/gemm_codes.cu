// Products of many tokens with weights whose codes the product itself decodes.
#include "cuda/sm90/gemm.cuh"

namespace fourfold::cuda {
namespace {

template <class F>
cudaError_t with_codes(Storage storage, F&& f) {
  switch (storage) {
    case Storage::fp8:
      return f(Tile<Storage::fp8>{});
    case Storage::int4:
      return f(Tile<Storage::int4>{});
    case Storage::mxfp4:
      return f(Tile<Storage::mxfp4>{});
    case Storage::nvfp4:
      return f(Tile<Storage::nvfp4>{});
    case Storage::q8_0:
      return f(Tile<Storage::q8_0>{});
    case Storage::q4_0:
      return f(Tile<Storage::q4_0>{});
    case Storage::q4_1:
      return f(Tile<Storage::q4_1>{});
    case Storage::q5_0:
      return f(Tile<Storage::q5_0>{});
    case Storage::q4_k:
      return f(Tile<Storage::q4_k>{});
    case Storage::q6_k:
      return f(Tile<Storage::q6_k>{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t multiply_decoding(const DeviceProject& project, const Panels& x, const float* scale, bool programmatic,
                              cudaStream_t stream) {
  return with_codes(project.storage, [&](auto tile) {
    using T = decltype(tile);
    return sm90::launch_gemm<kTokenTile, T>(project, x, scale, programmatic, stream);
  });
}

}  // namespace fourfold::cuda
