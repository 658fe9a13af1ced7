// What a session of the team executor takes, from the Program alone.
#pragma once

#include "program/backend.hpp"

namespace fourfold::team {

// Bytes. `caches` when options.context positions are written, the last one by itself; `states` of one sequence and
// their checkpoint; `arena` the Values of options.batch tokens.
struct MemoryUse {
  double weights = 0, caches = 0, states = 0, arena = 0;
  double total() const { return weights + caches + states + arena; }
};
MemoryUse memory_use(const Program& program, const PlanOptions& options);

}  // namespace fourfold::team
