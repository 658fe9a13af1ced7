#include "text/jinja/strings.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>

#include "text/jinja/value.hpp"
#include "text/utf8.hpp"

namespace fourfold::jinja {
namespace {

utf8proc_category_t category(std::uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_letter_category(utf8proc_category_t c) { return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO; }

bool is_printable(std::uint32_t code) {
  const auto c = category(code);
  const bool separator = c >= UTF8PROC_CATEGORY_ZS && c <= UTF8PROC_CATEGORY_ZP;
  const bool other = c == UTF8PROC_CATEGORY_CN || c >= UTF8PROC_CATEGORY_CC;
  return code == ' ' || !(separator || other);
}

void append_mapped(std::string& out, std::string_view character, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  const auto unit = first_character(character);
  if (unit.valid)
    append_utf8(out, static_cast<std::uint32_t>(map(static_cast<utf8proc_int32_t>(unit.code))));
  else
    out += character;
}

template <class Test>
std::string_view strip_if(std::string_view s, Side side, Test test) {
  if (static_cast<int>(side) & static_cast<int>(Side::left)) {
    while (!s.empty()) {
      const auto first = s.substr(0, first_character(s).length);
      if (!test(first)) break;
      s.remove_prefix(first.size());
    }
  }
  if (static_cast<int>(side) & static_cast<int>(Side::right)) {
    while (!s.empty()) {
      const std::size_t begin = last_character(s);
      if (!test(s.substr(begin))) break;
      s = s.substr(0, begin);
    }
  }
  return s;
}

}  // namespace

std::size_t code_points(std::string_view s) {
  std::size_t continuations = 0;
  for (char c : s) continuations += (c & 0xC0) == 0x80;
  return s.size() - continuations;
}

std::size_t byte_of(std::string_view s, std::size_t index) {
  std::size_t byte = 0;
  for (; byte < s.size(); ++byte) {
    if ((s[byte] & 0xC0) == 0x80) continue;
    if (index-- == 0) break;
  }
  return byte;
}

std::size_t last_character(std::string_view s) {
  std::size_t begin = s.size() - 1;
  while (begin > 0 && (s[begin] & 0xC0) == 0x80) --begin;
  return begin;
}

std::uint32_t code_of(std::string_view character) { return character.empty() ? 0 : first_character(character).code; }

bool is_space(std::uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(std::uint32_t code) { return is_letter_category(category(code)); }

bool is_digit(std::uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool is_word(std::uint32_t code) {
  const auto c = category(code);
  return code == '_' || is_letter_category(c) || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

std::string_view strip(std::string_view s, Side side) {
  return strip_if(s, side, [](std::string_view c) { return is_space(code_of(c)); });
}

std::string_view strip(std::string_view s, std::string_view set, Side side) {
  const auto members = characters(set);
  return strip_if(s, side,
                  [&](std::string_view c) { return std::find(members.begin(), members.end(), c) != members.end(); });
}

std::string lower(std::string_view s) {
  std::string out;
  for (auto c : characters(s)) append_mapped(out, c, utf8proc_tolower);
  return out;
}

std::string upper(std::string_view s) {
  std::string out;
  for (auto c : characters(s)) {
    if (c == "\u00df")
      out += "SS";
    else
      append_mapped(out, c, utf8proc_toupper);
  }
  return out;
}

std::string capitalize(std::string_view s) {
  const auto first = s.substr(0, byte_of(s, 1));
  std::string out;
  if (first == "\u00df")
    out = "Ss";
  else if (!first.empty())
    append_mapped(out, first, utf8proc_totitle);
  return out + lower(s.substr(first.size()));
}

std::optional<double> parse_double(std::string_view s) {
  if (s.starts_with('+') && !s.starts_with("+-")) s.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(s.data(), s.data() + s.size(), value);
  if (s.empty() || read.ptr != s.data() + s.size()) return std::nullopt;
  if (read.ec == std::errc()) return value;
  const auto e = std::min(s.find_first_of("eE"), s.size());
  const auto point = std::min(s.substr(0, e).find('.'), e);
  const auto first = std::min(s.find_first_of("123456789"), e);
  int exponent = 0;
  const char* digits = s.data() + std::min(e + (s.substr(e).starts_with("e+") ? 2 : 1), s.size());
  if (std::from_chars(digits, s.data() + s.size(), exponent).ec == std::errc::result_out_of_range)
    exponent = *digits == '-' ? -1000000000 : 1000000000;
  const bool large = static_cast<double>(point) - static_cast<double>(first) + exponent > 0;
  value = large ? std::numeric_limits<double>::infinity() : 0.0;
  return s.starts_with('-') ? -value : value;
}

std::string escape_html(std::string_view s) {
  std::string out;
  for (const char& c : s) {
    switch (c) {
      case '&':
        append(out, "&amp;");
        break;
      case '<':
        append(out, "&lt;");
        break;
      case '>':
        append(out, "&gt;");
        break;
      case '"':
        append(out, "&#34;");
        break;
      case '\'':
        append(out, "&#39;");
        break;
      default:
        append(out, {&c, 1});
    }
  }
  return out;
}

std::string_view take_line(std::string_view& rest, bool keep_end) {
  std::size_t end = 0, after = 0;
  while (after < rest.size()) {
    const auto unit = first_character(rest.substr(after));
    const std::uint32_t c = unit.code;
    end = after;
    after += unit.length;
    const bool ends = (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (unit.valid && ends) {
      if (c == '\r' && rest.substr(after).starts_with('\n')) ++after;
      break;
    }
    end = after;
  }
  const auto line = rest.substr(0, keep_end ? after : end);
  rest.remove_prefix(after);
  return line;
}

std::string quoted(std::string_view s) {
  const char quote = s.find('\'') != s.npos && s.find('"') == s.npos ? '"' : '\'';
  std::string out(1, quote);
  for (auto character : characters(s)) {
    const std::uint32_t c = code_of(character);
    char escape[16];
    if (c == static_cast<std::uint32_t>(quote) || c == '\\') {
      append(out, "\\");
      append(out, character);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      append(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (is_printable(c)) {
      append(out, character);
    } else {
      std::snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
      append(out, escape);
    }
  }
  return out + quote;
}

}  // namespace fourfold::jinja
