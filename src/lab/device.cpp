#include "lab/device.hpp"

#ifdef FOURFOLD_CUDA
#include "cuda/executor.hpp"
#include "cuda/probe.hpp"
#include "engine/session_state.hpp"

namespace fourfold {

std::string describe_device() {
  const auto device = cuda::open_device(0);
  if (!device.ok()) return device.error().message();
  return device->name + ", " + std::to_string(device->multiprocessors) + " multiprocessors, " +
         std::to_string(device->bytes >> 30) + " GiB, driver for CUDA " + std::to_string(device->driver / 1000) + "." +
         std::to_string(device->driver % 1000 / 10) + ", kernels for compute capability 9.0";
}

struct DeviceCeiling::State {
  cuda::ReadProbe probe;
};

result<std::unique_ptr<DeviceCeiling>> DeviceCeiling::create(int index) {
  auto device = cuda::open_device(index);
  if (!device.ok()) return device.error();
  auto probe = cuda::ReadProbe::create(*device);
  if (!probe.ok()) return probe.error();
  return std::unique_ptr<DeviceCeiling>(new DeviceCeiling(std::make_unique<State>(State{std::move(probe).value()})));
}

double DeviceCeiling::sample() {
  const auto rate = state_->probe.sample();
  return rate.ok() ? *rate : 0;
}

result<cuda::persistent::Traced> trace_token(Session& session, int position) {
  auto* executor = dynamic_cast<cuda::CudaExecutor*>(&executor_of(session));
  if (executor == nullptr) return status{Code::unsupported, session.executor() + " leaves no stamps"};
  return executor->trace(1, position);
}

}  // namespace fourfold

#else

namespace fourfold {

std::string describe_device() { return "not in this build"; }

struct DeviceCeiling::State {};

result<std::unique_ptr<DeviceCeiling>> DeviceCeiling::create(int) {
  return status{Code::unsupported, "this build has no CUDA"};
}

double DeviceCeiling::sample() { return 0; }

result<cuda::persistent::Traced> trace_token(Session&, int) {
  return status{Code::unsupported, "this build has no CUDA"};
}

}  // namespace fourfold
#endif

namespace fourfold {

DeviceCeiling::DeviceCeiling(std::unique_ptr<State> state) : state_(std::move(state)) {}
DeviceCeiling::~DeviceCeiling() = default;

}  // namespace fourfold
