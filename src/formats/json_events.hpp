// JsonEvents: base of the event handlers given to nlohmann::json::sax_parse, whose parser keeps its nesting on the
// heap.
//
// Limits the depth and keeps the first error. Derived handlers override the events they accept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/status.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "formats/message.hpp"

namespace fourfold {

class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonEvents(std::string_view text) : text_(text) {}

  const status& error() const { return error_; }

  bool binary(binary_t&) override { return fail("binary data"); }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception&) override {
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.find_last_of('\n');
    const std::size_t column = start == std::string_view::npos ? before.size() : before.size() - start - 1;
    return fail("not valid JSON at line " + std::to_string(line) + ", column " + std::to_string(column) + ", near " +
                quote(token));
  }

 protected:
  static constexpr int kDeepest = 64;

  int depth() const { return depth_; }
  bool enter() { return ++depth_ <= kDeepest || fail("nested deeper than " + std::to_string(kDeepest) + " levels"); }
  bool leave() {
    --depth_;
    return true;
  }
  bool fail(const std::string& message) {
    error_ = status(Code::malformed, message);
    return false;
  }

 private:
  std::string_view text_;
  int depth_ = 0;
  status error_;
};

}  // namespace fourfold
