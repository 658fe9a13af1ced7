// The parts of a message, texts and numbers, as one string.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace fourfold::jinja {

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  const auto add = [&out](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(part)>>)
      out += std::to_string(part);
    else
      out += std::string_view(part);
  };
  (add(parts), ...);
  return out;
}

}  // namespace fourfold::jinja
