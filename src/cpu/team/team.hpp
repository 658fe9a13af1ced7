// The team executor: a Program on this machine's CPU threads.
#pragma once

#include <memory>

#include "program/backend.hpp"

namespace fourfold {

// Loads every weight into the team's resident layout. unsupported lists every unmet requirement, one a line; bytes
// that cannot be read give the reader's status.
result<std::unique_ptr<Backend>> make_team(const Program& program, const WeightBytes& bytes,
                                           const BackendOptions& options);

}  // namespace fourfold
