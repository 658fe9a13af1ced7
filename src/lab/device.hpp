// The GPU as probes and reports see it, in builds with and without CUDA.
#pragma once

#include <memory>
#include <string>

#include "cuda/persistent/timeline.hpp"
#include "fourfold/session.hpp"
#include "fourfold/status.hpp"

namespace fourfold {

// "NVIDIA H200, 132 multiprocessors, 141 GB, driver for CUDA 13.0", or what stands in the way.
std::string describe_device();

// Reading the device's memory, sample by sample.
class DeviceCeiling {
 public:
  static result<std::unique_ptr<DeviceCeiling>> create(int device);
  ~DeviceCeiling();
  double sample();  // bytes per second; 0 once the device has failed

 private:
  struct State;
  explicit DeviceCeiling(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The last of a few tokens behind `position` of a session whose executor is `persistent`: what each CTA did when.
result<cuda::persistent::Traced> trace_token(Session& session, int position);

}  // namespace fourfold
