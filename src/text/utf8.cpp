#include "text/utf8.hpp"

namespace fourfold {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  std::uint32_t length;     // of the sequence; 0: no sequence begins with this byte
  unsigned char low, high;  // what the second byte may be
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2 || byte > 0xF4) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {4, 0x80, 0xBF};
}

}  // namespace

Utf8Unit first_character(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {.length = 1};
  if (lead.length == 1) return {.code = byte(0), .length = 1, .valid = true};
  std::uint32_t code = byte(0) & (0x7Fu >> lead.length);
  for (std::uint32_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {.length = i, .cut_short = true};
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {.length = i};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {.code = code, .length = lead.length, .valid = true};
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Unit unit = first_character(text.substr(at));
    if (!unit.valid) break;
    at += unit.length;
  }
  return at;
}

void append_utf8(std::string& out, std::uint32_t code) {
  auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined = std::move(held_);
  joined += bytes;
  held_.clear();
  std::string out;
  std::string_view rest = joined;
  while (!rest.empty()) {
    const std::size_t good = valid_prefix(rest);
    out += rest.substr(0, good);
    rest.remove_prefix(good);
    if (rest.empty()) break;
    const Utf8Unit unit = first_character(rest);
    if (unit.cut_short) {
      held_ = rest;
      break;
    }
    out += kReplacement;
    rest.remove_prefix(unit.length);
  }
  return out;
}

std::string Utf8Stream::flush() {
  const bool waiting = !held_.empty();
  held_.clear();
  return std::string(waiting ? kReplacement : std::string_view{});
}

}  // namespace fourfold
