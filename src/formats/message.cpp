#include "formats/message.hpp"

#include <algorithm>

namespace fourfold {
namespace {

constexpr std::size_t kLongestQuote = 80;

bool is_continuation(unsigned char c) { return (c & 0xc0) == 0x80; }

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t left = text.size() - at;
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (left < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!is_continuation(byte(i))) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f;
  const bool beyond = first == 0xf4 && second > 0x8f;
  return overlong || surrogate || beyond ? 0 : length;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool is_plain_name(std::string_view name) {
  const bool control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return !name.empty() && !control && is_utf8(name);
}

std::string quote(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "'";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kLongestQuote) return out + "...'";
    const auto c = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text, at);
    if (length == 0 || c < 0x20 || c == 0x7f) {
      out.append({'\\', 'x', kDigits[c >> 4], kDigits[c & 15]});
      at += 1;
    } else {
      out.append(text.substr(at, length));
      at += length;
    }
  }
  return out + "'";
}

std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ' ');
  return digits;
}

status in_file(std::string_view name, const status& error) {
  if (error.ok()) return error;
  return {error.code(), std::string(name) + ": " + error.message()};
}

}  // namespace fourfold
