// Activations of an epilogue, chosen at run time.
#pragma once

#include <fourfold/epilogue.hpp>

#include "fourfold/program.hpp"

namespace fourfold::cuda::sm90 {

__device__ __forceinline__ float activated(Activation activation, float x) {
  switch (activation) {
    case Activation::silu:
      return Silu{}(x, 0, 0);
    case Activation::gelu_tanh:
      return GeluTanh{}(x, 0, 0);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::relu_squared:
      return x > 0 ? x * x : 0.f;
    case Activation::none:
      break;
  }
  return x;
}

}  // namespace fourfold::cuda::sm90
