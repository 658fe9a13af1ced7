// Activations chosen at run time: for the reference, the team and device code.
#pragma once

#include <fourfold/epilogue.hpp>

#include "fourfold/program.hpp"

namespace fourfold {

template <class T>
constexpr T activated(Activation activation, T x) {
  switch (activation) {
    case Activation::silu:
      return Silu{}(x, 0, 0);
    case Activation::gelu_tanh:
      return GeluTanh{}(x, 0, 0);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::relu_squared:
      return x > 0 ? x * x : T{0};
    case Activation::none:
      break;
  }
  return x;
}

}  // namespace fourfold
