// JSON on stdout: one line, valid UTF-8 whatever the strings hold.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fourfold::cli {

// Bytes that are no UTF-8 become U+FFFD; `indent` < 0 gives one line.
std::string dumped(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace fourfold::cli
