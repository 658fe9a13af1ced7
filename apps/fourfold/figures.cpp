#include "figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace fourfold::cli {
namespace {

struct Scaled {
  double value;
  const char* prefix;
};

Scaled scaled(double n) {
  constexpr std::array prefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  while (std::abs(n) >= 999.5 && i + 1 < prefixes.size()) {
    n /= 1000;
    ++i;
  }
  return {n, prefixes[i]};
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  const int magnitude = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fixed(value, std::clamp(digits - 1 - magnitude, 0, 12));
}

std::string grouped_by_three(std::int64_t n) {
  std::string digits = std::to_string(n < 0 ? -n : n);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ' ');
  return (n < 0 ? "-" : "") + digits;
}

std::string rate(double per_second) {
  if (!std::isfinite(per_second)) return "-";
  return per_second < 99.95 ? significant(per_second, 3) : grouped_by_three(std::llround(per_second));
}

std::string in_bytes(double n) {
  const auto [value, prefix] = scaled(n);
  const int decimals = *prefix == '\0' ? 0 : *prefix == 'G' || *prefix == 'T' ? 2 : value < 99.95 ? 1 : 0;
  return fixed(value, decimals) + " " + prefix + "B";
}

std::string in_thousands(double n) {
  const auto [value, prefix] = scaled(n);
  return (*prefix == '\0' || value >= 9.95 ? fixed(value, 0) : fixed(value, 1)) + (*prefix == '\0' ? "" : " ") + prefix;
}

std::string milliseconds(double seconds) {
  if (seconds >= 9.995) return fixed(seconds, 1) + " s";
  return (seconds < 0.00995 ? fixed(seconds * 1e3, 2) : fixed(seconds * 1e3, 0)) + " ms";
}

std::string percent(double fraction) {
  if (!std::isfinite(fraction)) return "-";
  return (fraction < 0.0995 ? fixed(fraction * 100, 1) : fixed(fraction * 100, 0)) + "%";
}

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : separator) + words[i];
  return out;
}

std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) {
      std::array<char, 5> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
      out += escaped.data();
    } else {
      out += c;
    }
  }
  return out;
}

std::size_t columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace fourfold::cli
