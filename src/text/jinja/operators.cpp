#include "text/jinja/operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/format.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

using Int = std::int64_t;
constexpr Int kLeastInt = std::numeric_limits<Int>::min();

std::string_view symbol(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::multiply:
      return "*";
    case Op::divide:
      return "/";
    case Op::floor_divide:
      return "//";
    case Op::modulo:
      return "%";
    default:
      return "**";
  }
}

[[noreturn]] void overflow() { throw Failure{"an integer result does not fit 64 bits"}; }
[[noreturn]] void zero_division() { throw Failure{"division by zero"}; }

Value integer_power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) throw Failure{"0 to a negative power"};
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  Int result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Value integers(Op op, Int a, Int b) {
  Int out = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &out)) overflow();
      return out;
    case Op::subtract:
      if (__builtin_sub_overflow(a, b, &out)) overflow();
      return out;
    case Op::multiply:
      if (__builtin_mul_overflow(a, b, &out)) overflow();
      return out;
    case Op::divide:
      if (b == 0) zero_division();
      return static_cast<double>(a) / static_cast<double>(b);
    case Op::floor_divide:
      if (b == 0) zero_division();
      if (a == kLeastInt && b == -1) overflow();
      return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
    case Op::modulo:
      if (b == 0) zero_division();
      if (b == -1) return Int{0};
      out = a % b;
      return out != 0 && (out < 0) != (b < 0) ? out + b : out;
    default:
      return integer_power(a, b);
  }
}

// Quotient and remainder whose sign is the divisor's, as Python's divmod.
std::pair<double, double> divide_floats(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) rest += b, quotient -= 1;
  } else {
    rest = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), rest};
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return {whole, rest};
}

Value floats(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      if (b == 0) zero_division();
      return a / b;
    case Op::floor_divide:
    case Op::modulo: {
      if (b == 0) zero_division();
      const auto [quotient, rest] = divide_floats(a, b);
      return op == Op::modulo ? rest : quotient;
    }
    default: {
      if (a == 0 && b < 0) throw Failure{"0 to a negative power"};
      const double out = std::pow(a, b);
      if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) throw Failure{"a root of a negative number"};
      if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) throw Failure{"a float result is too large"};
      return out;
    }
  }
}

Value joined(Budget& budget, const Text& a, const Text& b) {
  budget.step((a.bytes.size() + b.bytes.size()) / 64);
  if (a.safe == b.safe) return make_text(&budget, a.bytes + b.bytes, a.safe);
  return make_text(&budget, (a.safe ? a.bytes : escape_html(a.bytes)) + (b.safe ? b.bytes : escape_html(b.bytes)),
                   true);
}

Value repeated(Budget& budget, const Value& value, Int count) {
  const std::size_t n = count > 0 ? static_cast<std::size_t>(count) : 0;
  const std::size_t each = value.text() ? value.text()->bytes.size() : value.list()->items.size() * sizeof(Value);
  if (n > 0 && each > kMaxBytes / n)
    throw Failure{concat("a repetition needs more than ", kMaxBytes >> 20, " MiB"), Code::resource};
  budget.step(each * n / 64);
  if (value.text()) {
    std::string out;
    out.reserve(each * n);
    if (each > 0)
      for (std::size_t i = 0; i < n; ++i) out += value.text()->bytes;
    return make_text(&budget, std::move(out), value.text()->safe);
  }
  Values items;
  const auto& unit = value.list()->items;
  if (!unit.empty())
    for (std::size_t i = 0; i < n; ++i) items.insert(items.end(), unit.begin(), unit.end());
  return make_list(&budget, std::move(items), value.list()->style);
}

bool repeatable(const Value& v) {
  return v.text() || (v.list() && (v.list()->style == List::Style::list || v.list()->is_tuple()));
}

bool is_nan(const Value& v) { return v.get<double>() && std::isnan(*v.get<double>()); }

// Index range of a slice over `length` items, as Python clips it.
struct Range {
  Int start, stop, step;
  std::size_t count() const {
    if (step > 0) return start < stop ? static_cast<std::size_t>((stop - start - 1) / step + 1) : 0;
    return stop < start ? static_cast<std::size_t>((start - stop - 1) / -step + 1) : 0;
  }
};

Range clip(std::size_t length, const Value& start, const Value& stop, const Value& step) {
  const Int n = static_cast<Int>(length);
  Range out{0, n, step.integer().value_or(1)};
  if (out.step == 0) throw Failure{"a slice's step is 0"};
  out.step = std::max(out.step, -std::numeric_limits<Int>::max());
  const bool back = out.step < 0;
  const auto bound = [&](const Value& value, Int fallback) {
    const auto i = value.integer();
    if (!i) return fallback;
    if (*i < 0) return *i + n < 0 ? (back ? Int{-1} : Int{0}) : *i + n;
    return *i >= n ? (back ? n - 1 : n) : *i;
  };
  out.start = bound(start, back ? n - 1 : 0);
  out.stop = bound(stop, back ? -1 : n);
  return out;
}

// The characters of a range.
std::string every_nth(std::string_view s, const Range& range) {
  std::string out;
  std::size_t left = range.count();
  if (left == 0) return out;
  for (std::size_t at = byte_of(s, static_cast<std::size_t>(range.start));;) {
    out += s.substr(at, byte_of(s.substr(at), 1));
    if (--left == 0) return out;
    for (Int i = 0; i < range.step; ++i) at += byte_of(s.substr(at), 1);
    for (Int i = 0; i > range.step; --i) at = last_character(s.substr(0, at));
  }
}

}  // namespace

void require_defined(const Value& value) {
  if (const auto* undefined = value.get<Undefined>())
    throw Failure{undefined->why ? *undefined->why : "an argument is missing"};
}

Value arithmetic(Budget& budget, Op op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    const auto x = a.integer(), y = b.integer();
    return x && y ? integers(op, *x, *y) : floats(op, a.number(), b.number());
  }
  if (op == Op::modulo && a.text()) return make_text(&budget, format_percent(budget, a.text()->bytes, b));
  require_defined(a);
  require_defined(b);
  if (op == Op::add) {
    if (a.text() && b.text()) return joined(budget, *a.text(), *b.text());
    if (a.list() && b.list() && repeatable(a) && repeatable(b) && a.list()->is_tuple() == b.list()->is_tuple()) {
      Values items = a.list()->items;
      budget.step(items.size() + b.list()->items.size());
      items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
      return make_list(&budget, std::move(items), a.list()->style);
    }
  }
  if (op == Op::multiply && repeatable(a) && b.integer()) return repeated(budget, a, *b.integer());
  if (op == Op::multiply && repeatable(b) && a.integer()) return repeated(budget, b, *a.integer());
  throw Failure{concat("'", type_name(a), "' ", symbol(op), " '", type_name(b), "' is not defined")};
}

Value signed_value(Op op, const Value& value) {
  require_defined(value);
  if (const auto i = value.integer()) {
    if (op == Op::negate && *i == kLeastInt) overflow();
    return op == Op::negate ? -*i : *i;
  }
  if (!value.get<double>()) throw Failure{concat("a sign before '", type_name(value), "' is not defined")};
  return op == Op::negate ? -value.number() : value.number();
}

bool compare(Budget& budget, Op op, const Value& a, const Value& b) {
  if (op == Op::in) return contains(budget, b, a);
  if (op == Op::not_in) return !contains(budget, b, a);
  budget.step(std::min(a.size(), b.size()));
  if (op == Op::equal) return equal(a, b);
  if (op == Op::not_equal) return !equal(a, b);
  require_defined(a);
  require_defined(b);
  const int sign = order(a, b);
  if (is_nan(a) || is_nan(b)) return false;
  switch (op) {
    case Op::less:
      return sign < 0;
    case Op::less_equal:
      return sign <= 0;
    case Op::greater:
      return sign > 0;
    default:
      return sign >= 0;
  }
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  budget.step(item.size());
  if (const auto* text = container.text()) {
    if (!item.text()) throw Failure{concat("'in' a text expects a text on its left, not '", type_name(item), "'")};
    budget.step(text->bytes.size() / 64);
    return text->bytes.find(item.text()->bytes) != std::string::npos;
  }
  if (const auto* dict = container.dict()) {
    if (!hashable(item)) throw Failure{concat("unhashable type: '", type_name(item), "'")};
    return dict->find(item) != nullptr;
  }
  if (!container.list() && !container.is_undefined())
    throw Failure{concat("'in' expects a text, a list or a dict on its right, not '", type_name(container), "'")};
  const auto others = iterate(budget, container);
  for (const auto& other : others->items) {
    budget.step(std::min(item.size(), other.size()));
    if (equal(item, other)) return true;
  }
  return false;
}

Value slice(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step) {
  require_defined(value);
  for (const auto* bound : {&start, &stop, &step})
    if (!bound->integer() && !bound->is_none() && !bound->is_undefined())
      throw Failure{concat("a slice's bounds are integers, not '", type_name(*bound), "'")};
  if (const auto* text = value.text()) {
    budget.step(text->bytes.size() / 64);
    const auto range = clip(text->length(), start, stop, step);
    const std::size_t count = range.count();
    if (range.step == 1) {
      const std::string_view all = text->bytes;
      const std::size_t begin = byte_of(all, static_cast<std::size_t>(range.start));
      return make_text(&budget, std::string(all.substr(begin, byte_of(all.substr(begin), count))));
    }
    return make_text(&budget, every_nth(text->bytes, range));
  }
  if (!value.list() || !value.list()->is_sequence()) throw Failure{concat("'", type_name(value), "' has no slices")};
  const auto& items = value.list()->items;
  const auto range = clip(items.size(), start, stop, step);
  Values out;
  for (std::size_t i = 0; i < range.count(); ++i)
    out.push_back(items[static_cast<std::size_t>(range.start + static_cast<Int>(i) * range.step)]);
  budget.step(out.size());
  const bool group = value.list()->style == List::Style::group;
  return make_list(&budget, std::move(out), group ? List::Style::tuple : value.list()->style);
}

std::shared_ptr<const List> iterate(Budget& budget, const Value& value) {
  Values out;
  if (const auto* list = value.list()) {
    const bool spent = list->style == List::Style::iterator && std::exchange(list->exhausted, true);
    if (!spent) {
      budget.step(list->items.size());
      return *value.get<std::shared_ptr<const List>>();
    }
  } else if (const auto* dict = value.dict()) {
    for (const auto& [key, item] : dict->entries) out.push_back(key);
  } else if (const auto* text = value.text()) {
    budget.step(text->bytes.size());
    for (auto character : characters(text->bytes)) out.push_back(make_text(&budget, std::string(character)));
  } else if (!value.is_undefined()) {
    throw Failure{concat("'", type_name(value), "' object is not iterable")};
  }
  budget.step(out.size());
  return std::make_shared<const List>(std::move(out), List::Style::list, &budget);
}

}  // namespace fourfold::jinja
