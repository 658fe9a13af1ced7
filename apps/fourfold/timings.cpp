#include "timings.hpp"

#include <nlohmann/json.hpp>

#include "engine/session_state.hpp"
#include "figures.hpp"

namespace fourfold::cli {

void compare_with_limits(Timings& t, Session& session, const Everywhere& everywhere, bool f32) {
  if (t.decode_tokens == 0) return;
  const Program& program = session.model().program();
  for (int i = 0; i < t.decode_tokens; ++i)
    t.bytes_per_token += cost(program, 1, session.position() - i, session.cache(), 1).bytes() / t.decode_tokens;
  if (everywhere.executor != "team") return;
  const Limits limits = measured_limits(everywhere, f32, executor_of(session).weights());
  t.read_bytes_per_s = limits.bytes_per_s;
  t.memory_binds = floor_of(program, {1, session.position(), session.cache(), 1}, limits).memory_binds();
}

std::string closing_line(const Timings& t, const std::string& why_ended) {
  std::vector<std::string> parts;
  if (t.load_s > 0) parts.push_back("load " + milliseconds(t.load_s));
  if (t.first_token_s > 0) parts.push_back("first token " + milliseconds(t.first_token_s));
  parts.push_back("prefill " + grouped_by_three(t.prefill_tokens) + " tokens " + rate(t.prefill_tokens / t.prefill_s) +
                  " t/s");
  if (t.decode_tokens > 0) {
    parts.push_back("decode " + grouped_by_three(t.decode_tokens) + " tokens " + rate(t.decode_tokens / t.decode_s) +
                    " t/s");
    std::string bytes = in_bytes(t.bytes_per_token) + "/token";
    if (t.read_bytes_per_s > 0)
      bytes += ", " + percent(t.share()) + " of " + fixed(t.read_bytes_per_s / 1e9, 1) + " GB/s (" +
               (t.memory_binds ? "memory" : "compute") + " binds)";
    parts.push_back(bytes);
  }
  if (!why_ended.empty()) parts.push_back(why_ended);
  return joined(parts, " · ");
}

nlohmann::ordered_json to_json(const Timings& t) {
  nlohmann::ordered_json json{{"load_ms", t.load_s * 1e3},
                              {"first_token_ms", t.first_token_s * 1e3},
                              {"prefill_tokens", t.prefill_tokens},
                              {"prefill_ms", t.prefill_s * 1e3},
                              {"prefill_tokens_per_s", t.prefill_tokens / t.prefill_s},
                              {"decode_tokens", t.decode_tokens},
                              {"decode_ms", t.decode_s * 1e3}};
  if (t.decode_tokens > 0) {
    json["decode_tokens_per_s"] = t.decode_tokens / t.decode_s;
    json["bytes_per_token"] = t.bytes_per_token;
    if (t.read_bytes_per_s > 0) {
      json["read_ceiling_bytes_per_s"] = t.read_bytes_per_s;
      json["share_of_ceiling"] = t.share();
      json["binds"] = t.memory_binds ? "memory" : "compute";
    }
  }
  return json;
}

std::string stated(Finish finish, const Session& session) {
  if (finish == Finish::context)
    return "stopped: the context of " + grouped_by_three(session.context()) + " tokens is full";
  return finish == Finish::cancelled ? "interrupted" : "";
}

}  // namespace fourfold::cli
