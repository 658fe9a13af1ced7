#include "json_out.hpp"

#include <nlohmann/json.hpp>

namespace fourfold::cli {

std::string dumped(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace fourfold::cli
