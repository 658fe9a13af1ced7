// Filters of numbers, sequences and dicts.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/builtins.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/selectors.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

using Int = std::int64_t;
constexpr Int kLeastInt = std::numeric_limits<Int>::min();

Value absolute(Evaluator&, const Value& self, Args&) {
  require_defined(self);
  if (const auto i = self.integer()) {
    if (*i == kLeastInt) throw Failure{"an integer result does not fit 64 bits"};
    return *i < 0 ? -*i : *i;
  }
  if (!self.is_number()) throw Failure{concat("abs expects a number, not '", type_name(self), "'")};
  return std::fabs(self.number());
}

std::int64_t length_of(const Value& v) {
  if (v.text()) return static_cast<Int>(v.text()->length());
  if (v.dict()) return static_cast<Int>(v.dict()->entries.size());
  if (v.is_undefined()) return 0;
  if (!v.list() || v.list()->style == List::Style::iterator)
    throw Failure{concat("object of type '", type_name(v), "' has no length")};
  return static_cast<Int>(v.list()->items.size());
}

Value length(Evaluator&, const Value& self, Args&) { return length_of(self); }

Value fallback(Evaluator& e, const Value& self, Args& args) {
  const bool use = self.is_undefined() || (flag_argument(args, 1, false) && !self.truth());
  if (!use) return self;
  return args.has(0) ? args[0] : e.text("");
}

Value first(Evaluator& e, const Value& self, Args&) {
  const auto items = e.iterate(self);
  return items->items.empty() ? Value::undefined("no first item, the sequence was empty") : items->items.front();
}

Value last(Evaluator& e, const Value& self, Args&) {
  if (self.list() && self.list()->style == List::Style::iterator)
    throw Failure{"last expects a list: put |list before it"};
  const auto items = e.iterate(self);
  return items->items.empty() ? Value::undefined("no last item, the sequence was empty") : items->items.back();
}

// Python's float() of a text: white space around it, underscores between digits, inf and nan.
std::optional<double> parse_float(std::string_view text) {
  std::string s(strip(text, Side::both));
  const auto digit = [&](std::size_t i) { return i < s.size() && s[i] >= '0' && s[i] <= '9'; };
  for (std::size_t i = 0; i < s.size(); ++i)
    if (s[i] == '_' && (i == 0 || !digit(i - 1) || !digit(i + 1))) return std::nullopt;
  std::erase(s, '_');
  const std::string word = lower(s);
  const std::string_view name =
      std::string_view(word).substr(!word.empty() && (word[0] == '+' || word[0] == '-') ? 1 : 0);
  const bool named = name == "inf" || name == "infinity" || name == "nan";
  if (s.empty() || (!named && word.find_first_not_of("0123456789+-.e") != word.npos)) return std::nullopt;
  return parse_double(word);
}

// Python's int() of a text in a base; 0: as a literal's prefix says.
std::optional<Int> parse_integer(std::string_view text, Int base) {
  std::string s = lower(strip(text, Side::both));
  const bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) s.erase(0, 1);
  const Int prefix = s.starts_with("0x") ? 16 : s.starts_with("0o") ? 8 : s.starts_with("0b") ? 2 : 0;
  if (prefix != 0 && (base == prefix || base == 0)) {
    base = prefix;
    s.erase(0, 2);
    if (s.starts_with('_')) s.erase(0, 1);
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) throw Failure{"int expects a base from 2 to 36"};
  for (std::size_t i = 0; i < s.size(); ++i)
    if (s[i] == '_' && (i == 0 || i + 1 == s.size() || s[i + 1] == '_')) return std::nullopt;
  std::erase(s, '_');
  if (s.empty() || s[0] == '-' || s[0] == '+') return std::nullopt;
  if (negative) s = concat("-", s);
  Int value = 0;
  const auto end = std::from_chars(s.data(), s.data() + s.size(), value, static_cast<int>(base));
  if (end.ptr != s.data() + s.size()) return std::nullopt;
  if (end.ec != std::errc()) throw Failure{concat("the integer ", s, " does not fit 64 bits")};
  return value;
}

Value to_integer(Evaluator&, const Value& self, Args& args) {
  const Value otherwise = args.has(0) ? args[0] : Value(Int{0});
  require_defined(self);
  std::optional<double> real;
  if (self.text()) {
    if (const auto i = parse_integer(self.text()->bytes, integer_argument(args, 1, 10))) return *i;
    real = parse_float(self.text()->bytes);
  } else if (const auto i = self.integer()) {
    return *i;
  } else if (self.get<double>()) {
    real = self.number();
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (std::fabs(*real) >= 0x1p63) throw Failure{"an integer result does not fit 64 bits"};
  return static_cast<Int>(*real);
}

Value to_float(Evaluator&, const Value& self, Args& args) {
  require_defined(self);
  if (self.is_number()) return self.number();
  const auto real = self.text() ? parse_float(self.text()->bytes) : std::nullopt;
  if (real) return *real;
  return args.has(0) ? args[0] : Value(0.0);
}

Value round_number(Evaluator&, const Value& self, Args& args) {
  const Int digits = integer_argument(args, 0, 0);
  const std::string method = text_argument(args, 1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    throw Failure{concat("round's method is 'common', 'ceil' or 'floor', not '", method, "'")};
  require_defined(self);
  if (!self.is_number()) throw Failure{concat("round expects a number, not '", type_name(self), "'")};
  const double value = self.number();
  if (method == "common" && self.integer() && digits >= 0) return *self.integer();
  if (digits > 308 || digits < -308) throw Failure{"round expects from -308 to 308 digits"};
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return std::ceil(value * scale) / scale;
  if (method == "floor") return std::floor(value * scale) / scale;
  if (self.integer())
    return static_cast<Int>(std::nearbyint(value * scale)) *
           static_cast<Int>(std::pow(10.0, static_cast<double>(-digits)));
  if (!std::isfinite(value)) return value;
  if (digits < 0) return std::nearbyint(value * scale) / scale;
  char decimal[700];
  const auto end = std::to_chars(decimal, std::end(decimal), value, std::chars_format::fixed, static_cast<int>(digits));
  return *parse_double({decimal, end.ptr});
}

Value reverse(Evaluator& e, const Value& self, Args&) {
  if (self.text()) return slice(e.budget(), self, Value(), Value(), Int{-1});
  const bool lazy = self.dict() || (self.list() && self.list()->style != List::Style::iterator);
  Values items = e.iterate(self)->items;
  std::reverse(items.begin(), items.end());
  return e.list(std::move(items), lazy ? List::Style::iterator : List::Style::list);
}

Value to_list(Evaluator& e, const Value& self, Args&) { return e.list(Values(e.iterate(self)->items)); }

Value items(Evaluator& e, const Value& self, Args&) {
  if (self.is_undefined()) return e.list({}, List::Style::iterator);
  if (!self.dict()) throw Failure{concat("items expects a dict, not '", type_name(self), "'")};
  Values out;
  for (const auto& [key, value] : self.dict()->entries) out.push_back(e.list({key, value}, List::Style::tuple));
  return e.list(std::move(out), List::Style::iterator);
}

Value dict_sort(Evaluator& e, const Value& self, Args& args) {
  const bool case_sensitive = flag_argument(args, 0, false);
  const std::string by = text_argument(args, 1, "key");
  if (by != "key" && by != "value") throw Failure{concat("dictsort sorts by 'key' or 'value', not '", by, "'")};
  require_defined(self);
  if (!self.dict()) throw Failure{concat("dictsort expects a dict, not '", type_name(self), "'")};
  std::vector<Keyed> rows;
  for (const auto& [key, value] : self.dict()->entries) {
    const Value& sorted_by = by == "key" ? key : value;
    rows.push_back({{case_sensitive ? sorted_by : folded(e, sorted_by)}, e.list({key, value}, List::Style::tuple)});
  }
  return e.list(sorted(e, std::move(rows), flag_argument(args, 2, false)));
}

Value slices(Evaluator& e, const Value& self, Args& args) {
  const auto all = e.iterate(self);
  const Int count = integer_argument(args, 0, 1);
  if (count < 1 || count > 100000) throw Failure{"slice expects from 1 to 100000 slices"};
  const auto n = static_cast<std::size_t>(count), length = all->items.size();
  Values out;
  auto begin = all->items.begin();
  for (std::size_t i = 0; i < n; ++i) {
    const auto size = static_cast<std::ptrdiff_t>(length / n + (i < length % n ? 1 : 0));
    Values part(begin, begin + size);
    begin += size;
    if (args.has(1) && !args[1].is_none() && i >= length % n) part.push_back(args[1]);
    out.push_back(e.list(std::move(part)));
  }
  return e.list(std::move(out), List::Style::iterator);
}

Value batches(Evaluator& e, const Value& self, Args& args) {
  const auto all = e.iterate(self);
  const Int count = integer_argument(args, 0, 1);
  if (count < 1 || count > 100000) throw Failure{"batch expects from 1 to 100000 items in each"};
  const auto size = static_cast<std::size_t>(count);
  Values out, part;
  for (const auto& item : all->items) {
    if (part.size() == size) out.push_back(e.list(std::exchange(part, {})));
    part.push_back(item);
  }
  if (!part.empty()) {
    if (args.has(1) && !args[1].is_none()) part.resize(size, args[1]);
    out.push_back(e.list(std::move(part)));
  }
  return e.list(std::move(out), List::Style::iterator);
}

// Attributes only, no items of a dict.
Value attribute(Evaluator& e, const Value& self, Args& args) {
  const std::string name = text_argument(args, 0, "");
  if (self.dict() && !find_method(self, name))
    return Value::undefined(concat("'dict object' has no attribute '", name, "'"));
  return e.attribute(self, name);
}

const Builtin kFilters[] = {
    {"abs", absolute, ""},
    {"attr", attribute, "name"},
    {"batch", batches, "linecount fill_with?"},
    {"count", length, ""},
    {"d", fallback, "default_value? boolean?"},
    {"default", fallback, "default_value? boolean?"},
    {"dictsort", dict_sort, "case_sensitive? by? reverse?"},
    {"first", first, ""},
    {"float", to_float, "default?"},
    {"int", to_integer, "default? base?"},
    {"items", items, ""},
    {"last", last, ""},
    {"length", length, ""},
    {"list", to_list, ""},
    {"reverse", reverse, ""},
    {"round", round_number, "precision? method?"},
    {"slice", slices, "slices fill_with?"},
};

}  // namespace

std::span<const Builtin> data_filters() { return kFilters; }

}  // namespace fourfold::jinja
