// What has to hold before a plan may run: nothing that a kernel could hang on or read too early.
#pragma once

#include "cuda/persistent/plan.hpp"

namespace fourfold::cuda::persistent {

// Runs two tokens of the plan with vector clocks: clock[cta][other] is the last task of `other` that surely happened
// before, known from counters alone. malformed, with phase, CTA and counter or buffer:
//   "overlap"          two buffers share floats of the arena, or one lies outside it
//   "cycle"            tasks wait for each other
//   "missing arrival"  nobody is left who would bring a counter to what a task waits for
//   "mixed arrivals"   a counter could be brought to its target by arrivals of a later version
//   "read too early"   a task reads what no task before it surely wrote in that version
//   "written twice"    two tasks write the same outputs of one version
//   "overwritten"      a task writes over what another may still have to read
//   "never written"    outputs that no task writes
status validate(const Plan& plan);

}  // namespace fourfold::cuda::persistent
