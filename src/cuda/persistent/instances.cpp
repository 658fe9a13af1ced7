#include "cuda/persistent/instances.hpp"

#include <array>

namespace fourfold::cuda::persistent {

Instance bf16_128();
Instance bf16_64();
Instance fp8_128();
Instance int4_128();
Instance q8_0_128();
Instance q8_0_64();
Instance mxfp4_128();

std::span<const Instance> instances() {
  static const std::array kInstances{bf16_128(), bf16_64(), fp8_128(), int4_128(), q8_0_128(), q8_0_64(), mxfp4_128()};
  return kInstances;
}

const Instance* find_instance(Storage storage, int head_dim) {
  for (const Instance& i : instances())
    if (i.storage == storage && i.head_dim == head_dim) return &i;
  return nullptr;
}

std::string instance_names() {
  std::string names;
  for (const Instance& i : instances())
    names += (names.empty() ? "" : ", ") + std::string(info(i.storage).name) + " with heads of " +
             std::to_string(i.head_dim);
  return names;
}

}  // namespace fourfold::cuda::persistent
