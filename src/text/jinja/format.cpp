#include "text/jinja/format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/print.hpp"
#include "text/jinja/strings.hpp"
#include "text/utf8.hpp"

namespace fourfold::jinja {
namespace {

constexpr int kWidest = 4096;  // of a field, and most digits of a precision

struct Spec {
  std::string_view fill = " ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false;  // a prefix for the base of an integer
  bool grouped = false;
  int width = 0, precision = -1;
  char type = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Decimal digits at the start of s, taken from it; -1 when there are none.
int take_number(std::string_view& s) {
  if (s.empty() || !is_digit(s[0])) return -1;
  int out = 0;
  for (; !s.empty() && is_digit(s[0]); s.remove_prefix(1)) {
    out = out * 10 + (s[0] - '0');
    if (out > kWidest) throw Failure{concat("a format's width or precision is more than ", kWidest)};
  }
  return out;
}

std::string padded(const Spec& spec, std::string body, char default_align) {
  const auto length = code_points(body);
  const auto width = static_cast<std::size_t>(spec.width);
  if (length >= width) return body;
  const std::size_t missing = width - length;
  const char align = spec.align ? spec.align : default_align;
  const auto fill = [&](std::size_t n) {
    std::string out;
    while (n-- > 0) out += spec.fill;
    return out;
  };
  if (align == '<') return body + fill(missing);
  if (align == '^') return fill(missing / 2) + body + fill(missing - missing / 2);
  if (align == '>') return fill(missing) + body;
  std::size_t sign = !body.empty() && (body[0] == '-' || body[0] == '+' || body[0] == ' ') ? 1 : 0;
  if (body.size() > sign + 1 && body[sign] == '0' &&
      std::string_view("xXob").find(body[sign + 1]) != std::string_view::npos)
    sign += 2;
  return body.substr(0, sign) + fill(missing) + body.substr(sign);
}

std::string with_commas(std::string digits) {
  const auto end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t i = end; i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string signed_text(const Spec& spec, bool negative, std::string magnitude) {
  if (spec.grouped) magnitude = with_commas(std::move(magnitude));
  if (negative) return concat("-", magnitude);
  return spec.sign == '+' ? concat("+", magnitude) : spec.sign == ' ' ? concat(" ", magnitude) : magnitude;
}

std::string format_integer(const Spec& spec, std::int64_t value) {
  const bool negative = value < 0;
  std::uint64_t rest = negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  std::string digits;
  const std::string_view alphabet = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  do {
    digits += alphabet[rest % base];
    rest /= base;
  } while (rest != 0);
  while (static_cast<int>(digits.size()) < spec.precision) digits += '0';
  std::reverse(digits.begin(), digits.end());
  if (spec.alternate && base != 10) digits = std::string("0") + spec.type + digits;
  return padded(spec, signed_text(spec, negative, std::move(digits)), '>');
}

std::string digits_of(double magnitude, std::chars_format format, int precision) {
  char buffer[kWidest + 400];
  const auto end = std::to_chars(buffer, std::end(buffer), magnitude, format, precision);
  return std::string(buffer, end.ptr);
}

std::string format_float(const Spec& spec, double value) {
  const char type = static_cast<char>(spec.type | 0x20);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  const double magnitude = std::fabs(value);
  std::string out;
  if (!std::isfinite(value)) {
    out = std::isnan(value) ? "nan" : "inf";
  } else if (spec.type == '%') {
    out = digits_of(magnitude * 100, std::chars_format::fixed, precision) + "%";
  } else if (!spec.type) {
    out = spec.precision < 0 ? repr(magnitude) : digits_of(magnitude, std::chars_format::general, precision);
    if (out.find_first_of(".e") == out.npos) out += ".0";
  } else {
    out = digits_of(magnitude,
                    type == 'f'   ? std::chars_format::fixed
                    : type == 'e' ? std::chars_format::scientific
                                  : std::chars_format::general,
                    precision);
  }
  if (spec.type >= 'A' && spec.type <= 'Z') out = upper(out);
  return padded(spec, signed_text(spec, std::signbit(value) && !std::isnan(value), std::move(out)), '>');
}

std::string first_points(std::string s, int count) {
  if (count >= 0) s.resize(byte_of(s, static_cast<std::size_t>(count)));
  return s;
}

std::string character(const Value& value) {
  if (value.text() && value.text()->length() == 1) return value.text()->bytes;
  const auto code = value.integer();
  if (!code || *code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000))
    throw Failure{"%c expects a character or its code"};
  std::string out;
  append_utf8(out, static_cast<std::uint32_t>(*code));
  return out;
}

double as_float(const Value& value, char type) {
  if (!value.is_number()) throw Failure{std::string("%") + type + " expects a number, not '" + type_name(value) + "'"};
  return value.number();
}

std::int64_t as_integer(const Value& value, char type) {
  if (const auto i = value.integer()) return *i;
  const bool decimal = type == 'd' || type == 'i' || type == 'u';
  const auto* d = value.get<double>();
  if (!decimal || !d || !(std::fabs(*d) < 0x1p63))
    throw Failure{std::string("%") + type + " expects an integer, not '" + type_name(value) + "'"};
  return static_cast<std::int64_t>(*d);
}

std::string percent_field(Spec spec, const Value& value) {
  switch (spec.type) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      return format_integer(spec, as_integer(value, spec.type));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return format_float(spec, as_float(value, spec.type));
    case 'c':
      return padded(spec, character(value), '>');
    case 's':
      return padded(spec, first_points(to_text(value), spec.precision), '>');
    case 'r':
    case 'a':
      return padded(spec, first_points(repr(value), spec.precision), '>');
    default:
      throw Failure{std::string("unsupported format character '") + spec.type + "'"};
  }
}

// The values of a "%" format, in order or by name.
class Operands {
 public:
  explicit Operands(const Value& values) : values_(values), tuple_(values.list() && values.list()->is_tuple()) {}

  const Value& next() {
    const std::size_t count = tuple_ ? values_.list()->items.size() : 1;
    if (used_ >= count) throw Failure{"not enough values for the format"};
    ++used_;
    return tuple_ ? values_.list()->items[used_ - 1] : values_;
  }

  const Value& named(std::string_view name) {
    const auto* found = values_.dict() ? values_.dict()->find(name) : nullptr;
    if (!found) throw Failure{concat("the format's values have no '", name, "'")};
    used_ = 1;
    return *found;
  }

  void finish() const {
    const bool left = tuple_ ? used_ < values_.list()->items.size() : used_ == 0 && !values_.dict() && !values_.list();
    if (left) throw Failure{"the format does not use all values"};
  }

 private:
  const Value& values_;
  bool tuple_;
  std::size_t used_ = 0;
};

int star_or_number(std::string_view& s, Operands& operands) {
  if (s.empty() || s[0] != '*') return take_number(s);
  s.remove_prefix(1);
  const auto given = operands.next().integer();
  if (!given || *given < -kWidest || *given > kWidest) throw Failure{"'*' in a format expects a small integer"};
  return static_cast<int>(*given);
}

// Flags, width and precision of a "%" conversion; s is left at its type.
Spec percent_spec(std::string_view& s, Operands& operands) {
  Spec spec;
  bool zero = false;
  for (; !s.empty() && std::string_view("-+ #0").find(s[0]) != std::string_view::npos; s.remove_prefix(1)) {
    if (s[0] == '-') spec.align = '<';
    if (s[0] == '+' || (s[0] == ' ' && spec.sign != '+')) spec.sign = s[0];
    if (s[0] == '#') spec.alternate = true;
    if (s[0] == '0') zero = true;
  }
  spec.width = star_or_number(s, operands);
  if (spec.width < -1) spec.align = '<', spec.width = -spec.width;
  spec.width = std::max(spec.width, 0);
  if (!s.empty() && s[0] == '.') {
    s.remove_prefix(1);
    spec.precision = std::max(star_or_number(s, operands), 0);
  }
  while (!s.empty() && (s[0] == 'l' || s[0] == 'h' || s[0] == 'L')) s.remove_prefix(1);
  if (s.empty()) throw Failure{"a format ends within a conversion"};
  spec.type = s[0];
  s.remove_prefix(1);
  const bool numeric = std::string_view("rsac").find(spec.type) == std::string_view::npos;
  if (zero && numeric && spec.align != '<') spec.align = '=', spec.fill = "0";
  return spec;
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Spec brace_spec(std::string_view s) {
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  Spec spec;
  if (!s.empty()) {
    const std::size_t first = byte_of(s, 1);
    if (s.size() > first && is_align(s[first])) {
      spec.fill = s.substr(0, first);
      spec.align = s[first];
      s.remove_prefix(first + 1);
    } else if (is_align(s[0])) {
      spec.align = s[0];
      s.remove_prefix(1);
    }
  }
  const auto take = [&](std::string_view any) {
    if (s.empty() || any.find(s[0]) == any.npos) return '\0';
    const char c = s[0];
    s.remove_prefix(1);
    return c;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#");
  if (take("0") && !spec.align) spec.align = '=', spec.fill = "0";
  spec.width = std::max(take_number(s), 0);
  spec.grouped = take(",");
  if (take(".")) {
    spec.precision = take_number(s);
    if (spec.precision < 0) throw Failure{"a format's precision is missing"};
  }
  spec.type = take("bcdeEfFgGosxX%");
  if (!s.empty()) throw Failure{concat("a format specification ends in '", s, "'")};
  return spec;
}

std::string brace_field(const Value& value, std::string_view specification) {
  if (specification.empty()) return to_text(value);
  Spec spec = brace_spec(specification);
  const bool floating = spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.text()) {
    if ((spec.type && spec.type != 's') || spec.align == '=')
      throw Failure{concat("a text has no format '", specification, "'")};
    return padded(spec, first_points(value.text()->bytes, spec.precision), '<');
  }
  if (value.get<double>() || (floating && value.integer())) {
    if (spec.type && !floating) throw Failure{concat("a float has no format '", specification, "'")};
    return format_float(spec, value.number());
  }
  if (const auto i = value.integer()) {
    if (spec.type == 's' || spec.precision >= 0)
      throw Failure{concat("an integer has no format '", specification, "'")};
    return spec.type == 'c' ? padded(spec, character(value), '<') : format_integer(spec, *i);
  }
  throw Failure{concat("'", type_name(value), "' takes no format specification")};
}

}  // namespace

std::string format_percent(Budget& budget, std::string_view s, const Value& values) {
  Operands operands(values);
  std::string out;
  while (!s.empty()) {
    const auto at = std::min(s.find('%'), s.size());
    out += s.substr(0, at);
    s.remove_prefix(at);
    if (s.empty()) break;
    s.remove_prefix(1);
    const Value* named = nullptr;
    if (s.starts_with('(')) {
      const auto close = s.find(')');
      if (close == s.npos) throw Failure{"a format's key is not closed"};
      named = &operands.named(s.substr(1, close - 1));
      s.remove_prefix(close + 1);
    }
    const Spec spec = percent_spec(s, operands);
    const std::string field = spec.type == '%' ? "%" : percent_field(spec, named ? *named : operands.next());
    budget.step(field.size() / 64);
    append(out, field);
  }
  operands.finish();
  return out;
}

std::string format_braces(Budget& budget, std::string_view s, const Args& args) {
  std::string out;
  std::size_t automatic = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '{' && s[i] != '}') {
      out += s[i];
      continue;
    }
    if (i + 1 < s.size() && s[i + 1] == s[i]) {
      out += s[i++];
      continue;
    }
    const auto close = s.find('}', i);
    if (s[i] == '}' || close == s.npos) throw Failure{concat("a single '", std::string(1, s[i]), "' in a format")};
    std::string_view field = s.substr(i + 1, close - i - 1);
    std::string_view specification;
    if (const auto colon = field.find(':'); colon != field.npos) {
      specification = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = 0;
    if (const auto mark = field.find('!'); mark != field.npos) {
      conversion = mark + 2 == field.size() ? field[mark + 1] : '?';
      field = field.substr(0, mark);
    }
    if (conversion && conversion != 'r' && conversion != 's') throw Failure{"a format's conversion is !r or !s"};
    const Value* value = nullptr;
    if (field.empty() || is_digit(field[0])) {
      const std::size_t index = field.empty() ? automatic++ : static_cast<std::size_t>(take_number(field));
      if (index < args.positional.size()) value = &args.positional[index];
    } else {
      for (const auto& [name, named] : args.named)
        if (name == field) value = &named, field = {};
    }
    if (!value || !field.empty()) throw Failure{concat("no value for a format's field '", field, "'")};
    const std::string text = conversion ? conversion == 'r' ? repr(*value) : to_text(*value) : "";
    const std::string done =
        conversion ? brace_field(make_text(nullptr, text), specification) : brace_field(*value, specification);
    budget.step(done.size() / 64);
    append(out, done);
    i = close;
  }
  return out;
}

}  // namespace fourfold::jinja
