// Files of sessions: session_file.cpp says what is in them. They need no more of an executor than its rows and states.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "program/backend.hpp"

namespace fourfold {

// Whose session it is: a file belongs to one model, and to executors whose rows and states look alike.
struct SessionOwner {
  const Program& program;
  const WeightBytes& weights;
  const Executor& executor;
  int context;
};

// ids: what the executor has evaluated. Another name is written first, then moved: no half a file is left.
status write_session(const std::string& path, const SessionOwner& owner, std::span<const int> ids);

struct SavedSession {
  std::unique_ptr<Executor> executor;  // one that `plan` made, as the saved one stood
  std::vector<int> ids;
};
using FreshExecutor = std::function<result<std::unique_ptr<Executor>>()>;
// malformed: cut, damaged or no session file; unsupported: another version's, model's or cache's; resource: too long.
result<SavedSession> read_session(const std::string& path, const SessionOwner& owner, const FreshExecutor& plan);

}  // namespace fourfold
