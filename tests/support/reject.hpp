// EXPECT_REJECT(result, "part of the message"): a typed error, quickly, and without taking memory.
#pragma once

#include <gtest/gtest.h>

#include <ctime>
#include <fourfold/status.hpp>
#include <fstream>
#include <string>
#include <string_view>

namespace fourfold::test {

inline const status& status_of(const status& s) { return s; }
template <class T>
const status& status_of(const result<T>& r) {
  return r.error();
}

// A sanitizer takes its time, and keeps what was freed to see who uses it again.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Peak resident bytes of this process so far.
inline long peak_resident() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    long kib = 0;
    if (word == "VmHWM:" && in >> kib) return kib * 1024;
  }
  return 0;
}

// Runs `attempt` and expects it to fail as every bad input has to: in under 0.2 s of processor time, growing by less
// than 64 MiB, with `code` and a one-line message that holds `part`.
template <class F>
void expect_reject(F&& attempt, Code code, std::string_view part, const char* file, int line) {
  const testing::ScopedTrace here(file, line, "EXPECT_REJECT");
  const long before = peak_resident();
  const std::clock_t start = std::clock();
  const auto outcome = attempt();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const status& met = status_of(outcome);
  EXPECT_EQ(met.code(), code) << met.message();
  EXPECT_NE(met.message().find(part), std::string::npos) << met.message();
  EXPECT_EQ(met.message().find('\n'), std::string::npos) << met.message();
  EXPECT_LT(seconds, 0.2);
  EXPECT_LT(peak_resident() - before, 64L << 20);
}

}  // namespace fourfold::test

#define EXPECT_REJECT(expression, code, part) \
  fourfold::test::expect_reject([&] { return (expression); }, code, part, __FILE__, __LINE__)
