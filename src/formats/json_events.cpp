#include "formats/json_events.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/message.hpp"

namespace fourfold {

// Passes the parser's events on, counts the depth, and words syntax errors.
class JsonAdapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonAdapter(std::string_view text, JsonEvents& events) : text_(text), events_(events) {}

  const std::string& message() const { return events_.message_; }

  bool null() override { return events_.null(); }
  bool boolean(bool value) override { return events_.boolean(value); }
  bool number_integer(std::int64_t value) override { return events_.integer(value); }
  bool number_unsigned(std::uint64_t value) override { return events_.unsigned_integer(value); }
  bool number_float(double value, const std::string& token) override { return events_.number(value, token); }
  bool string(std::string& value) override { return events_.string(value); }
  bool binary(binary_t&) override { return events_.fail("binary data"); }
  bool key(std::string& name) override { return events_.key(name); }
  bool start_object(std::size_t) override { return events_.begin_object() && enter(); }
  bool start_array(std::size_t) override { return events_.begin_array() && enter(); }
  bool end_object() override {
    --events_.depth_;
    return events_.end_object();
  }
  bool end_array() override {
    --events_.depth_;
    return events_.end_array();
  }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception&) override {
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t column = before.size() - (before.find_last_of('\n') + 1);  // npos + 1 is 0
    return events_.fail("not valid JSON at line " + std::to_string(line) + ", column " + std::to_string(column) +
                        ", near " + quote(token));
  }

 private:
  static constexpr int kDeepest = 64;

  bool enter() {
    return ++events_.depth_ <= kDeepest || events_.fail("nested deeper than " + std::to_string(kDeepest) + " levels");
  }

  std::string_view text_;
  JsonEvents& events_;
};

status parse_json(std::string_view text, JsonEvents& events) {
  // The parser takes a zero byte for the end of its input and would not see what follows.
  if (text.find('\0') != std::string_view::npos) return {Code::malformed, "not valid JSON: it holds a zero byte"};
  JsonAdapter adapter(text, events);
  if (nlohmann::json::sax_parse(text, &adapter)) return {};
  return {Code::malformed, adapter.message()};
}

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace fourfold
