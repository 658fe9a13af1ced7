// Timings of one generation: the closing line of run and chat, and "timings" of --json.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "limits.hpp"

namespace fourfold::cli {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

struct Timings {
  double load_s = 0;
  int prefill_tokens = 0;
  double prefill_s = 0;
  double first_token_s = 0;  // from the prompt's start to the first token's end
  int decode_tokens = 0;     // evaluated one by one after the prompt
  double decode_s = 0;

  double bytes_per_token = 0;   // of those, on average
  double read_bytes_per_s = 0;  // the ceiling; 0: not known for this executor
  bool memory_binds = true;
  double share() const { return bytes_per_token * decode_tokens / decode_s / read_bytes_per_s; }
};

// Fills in bytes and ceiling for decoding up to `position`.
void compare_with_limits(Timings& timings, Session& session, const Everywhere& everywhere, bool f32);

std::string closing_line(const Timings& timings, const std::string& why_ended);
nlohmann::ordered_json to_json(const Timings& timings);

// Why a generation ended, where the text itself does not show it: a full context, an interruption.
std::string stated(Finish finish, const Session& session);

}  // namespace fourfold::cli
