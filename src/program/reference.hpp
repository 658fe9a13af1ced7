// The reference executor: every step by its element-level definition, in double or in float. It is the specification
// that other executors are checked against; nothing in it is fast.
#pragma once

#include <memory>

#include "program/backend.hpp"

namespace fourfold {

// Reads every weight's bytes. The caches hold the arithmetic type whatever PlanOptions::cache says, and every Value
// keeps its own place. `in_double` false computes in float.
result<std::unique_ptr<Backend>> make_reference(const Program& program, const WeightBytes& bytes,
                                                const BackendOptions& options, bool in_double);

}  // namespace fourfold
