// What the device's memory gives: a ceiling, read again whenever a figure is taken.
#pragma once

#include "cuda/device.hpp"

namespace fourfold::cuda {

class ReadProbe {
 public:
  // Holds 4 GiB of device memory, many times the L2.
  static result<ReadProbe> create(const DeviceInfo& device);

  // Bytes per second of reading it once by bulk copies, the best of three.
  result<double> sample();

 private:
  DeviceInfo device_;
  DeviceMemory memory_;
};

}  // namespace fourfold::cuda
