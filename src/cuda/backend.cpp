#include "cuda/backend.hpp"

#include "cuda/executor.hpp"

namespace fourfold {
namespace cuda {
namespace {

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(std::shared_ptr<const CudaModel> model) : model_(std::move(model)) {}

  std::string name() const override {
    return model_->device.name + ", " + std::to_string(model_->device.multiprocessors) + " multiprocessors";
  }
  std::size_t weight_bytes() const override { return model_->weights.bytes(); }
  result<std::unique_ptr<Executor>> plan(const PlanOptions& options) override {
    const std::string& executor = options.executor;
    if (executor != "graph" && executor != "stream" && executor != "persistent")
      return status{Code::unsupported,
                    "plan: executor `" + executor + "` is not in this build; accepted: graph, persistent, stream"};
    FOURFOLD_TRY(check_program(model_->program, options, executor.c_str()));
    return CudaExecutor::make(model_, options);
  }

 private:
  std::shared_ptr<const CudaModel> model_;
};

}  // namespace
}  // namespace cuda

result<std::unique_ptr<Backend>> make_cuda(const Program& program, const WeightBytes& bytes,
                                           const BackendOptions& options) {
  auto device = cuda::open_device(options.device);
  if (!device.ok()) return device.error();
  auto weights = cuda::DeviceWeights::load(program, bytes, options.progress);
  if (!weights.ok()) return weights.error();
  auto model = std::make_shared<const cuda::CudaModel>(
      cuda::CudaModel{program, std::move(device).value(), std::move(weights).value()});
  return std::unique_ptr<Backend>(std::make_unique<cuda::CudaBackend>(std::move(model)));
}

}  // namespace fourfold
