// The persistent kernels that are compiled in, by storage of the weights and head dimension; keys and values in bf16.
#pragma once

#include <span>
#include <string>

#include "cuda/persistent/launch.hpp"

namespace fourfold::cuda::persistent {

struct Instance {
  Storage storage;
  int head_dim;
  int slice;           // columns of a tile
  const void* kernel;  // of type void(Launch)
  int shared_bytes;
};

std::span<const Instance> instances();
// Null where there is none.
const Instance* find_instance(Storage storage, int head_dim);
// "bf16 with heads of 64, ...": what an error message offers.
std::string instance_names();

inline constexpr int kCtaThreads = 512;

}  // namespace fourfold::cuda::persistent
