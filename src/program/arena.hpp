// Arena: one buffer for all Values of a Program; Values whose lifetimes do not overlap share bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "fourfold/program.hpp"

namespace fourfold {

struct ArenaPlan {
  std::vector<std::int64_t> offset;  // per Value, in floats per token: Value v is [T, width] at T * offset[v]
  std::int64_t width = 0;            // floats per token of the whole arena
};

// First fit over lifetimes (first step that writes to last step that reads). A step's outputs never share with its
// inputs, nor with each other. `reuse` false gives every Value a place of its own. The logits lie outside the arena
// (offset -1): the caller owns them.
ArenaPlan plan_arena(const Program& program, bool reuse = true);

}  // namespace fourfold
