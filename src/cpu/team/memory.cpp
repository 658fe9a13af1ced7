#include "cpu/team/memory.hpp"

#include "cpu/team/cache.hpp"
#include "program/arena.hpp"

namespace fourfold::team {

MemoryUse memory_use(const Program& program, const PlanOptions& options) {
  MemoryUse use;
  for (const TensorSpec& tensor : program.tensors) use.weights += static_cast<double>(tensor.bytes());
  use.caches = static_cast<double>(TeamCache::bytes_at(program, options, options.context));
  use.states = 2.0 * static_cast<double>(program.state_numbers()) * sizeof(float);
  use.arena = static_cast<double>(plan_arena(program, !options.debug).width) * options.batch * sizeof(float);
  return use;
}

}  // namespace fourfold::team
