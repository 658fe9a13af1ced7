// How a verb ends early: by throwing an Exit, which main() turns into one line on stderr and the exit code.
#pragma once

#include <fourfold/status.hpp>
#include <string>
#include <utility>

namespace fourfold::cli {

inline constexpr int kGood = 0, kFailed = 1, kUsage = 2, kInterrupted = 130;

struct Exit {
  int code;
  std::string message;  // empty: nothing to say
};

[[noreturn]] inline void fail(const std::string& message) { throw Exit{kFailed, message}; }
[[noreturn]] inline void misuse(const std::string& message) { throw Exit{kUsage, message}; }

inline void must(const status& s) {
  if (s.code() == Code::cancelled) throw Exit{kInterrupted, ""};
  if (!s.ok()) fail(s.message());
}
template <class T>
T must(result<T> r) {
  if (!r.ok()) must(r.error());
  return std::move(r).value();
}

}  // namespace fourfold::cli
