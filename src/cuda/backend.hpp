// The CUDA backend: a Program's weights on a device, run by kernels launched one by one or as a graph.
#pragma once

#include <memory>

#include "program/backend.hpp"

namespace fourfold {

// not_found: no device or driver. resource: the weights do not fit. unsupported lists every unmet requirement.
// PlanOptions::executor: "stream" launches a token's kernels one by one; "graph" replays them, each kernel starting
// while the one before it ends.
result<std::unique_ptr<Backend>> make_cuda(const Program& program, const WeightBytes& bytes,
                                           const BackendOptions& options);

}  // namespace fourfold
