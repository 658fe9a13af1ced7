#include "text/jinja/value.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

int deepest(const Values& items) {
  int depth = 0;
  for (const auto& item : items) depth = std::max(depth, item.depth());
  return depth;
}

std::size_t sum(std::size_t a, std::size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

std::size_t total_size(const Values& items) {
  std::size_t size = 1;
  for (const auto& item : items) size = sum(size, item.size());
  return size;
}

int one_deeper(int depth) {
  if (depth >= kMaxNesting) throw Failure{concat("values nested more than ", kMaxNesting, " deep"), Code::resource};
  return depth + 1;
}

std::size_t mix(std::size_t seed, std::size_t hash) { return seed * 0x9e3779b97f4a7c15u + hash; }

// Exact, although neither type holds all values of the other.
int order_numbers(const Value& a, const Value& b) {
  const auto x = a.integer(), y = b.integer();
  if (x && y) return *x < *y ? -1 : *x > *y;
  const auto against = [](std::int64_t i, double d) {
    if (d >= 0x1p63) return -1;
    if (d < -0x1p63) return 1;
    const auto whole = static_cast<std::int64_t>(d);
    if (i != whole) return i < whole ? -1 : 1;
    const double rest = d - std::trunc(d);
    return rest > 0 ? -1 : rest < 0;
  };
  const double p = a.number(), q = b.number();
  if (std::isnan(p) || std::isnan(q)) return 0;
  if (x) return against(*x, q);
  if (y) return -against(*y, p);
  return p < q ? -1 : p > q;
}

bool is_nan(const Value& v) { return v.get<double>() && std::isnan(*v.get<double>()); }

}  // namespace

void append(std::string& out, std::string_view piece) {
  require_room(out.size(), piece.size());
  out += piece;
}

void require_room(std::size_t size, std::size_t more) {
  if (more > kMaxBytes - std::min(kMaxBytes, size))
    throw Failure{concat("a text needs more than ", kMaxBytes >> 20, " MiB"), Code::resource};
}

void Budget::step(std::size_t n) {
  if (n > kMaxSteps - steps_)
    throw Failure{concat("the template takes more than ", kMaxSteps, " steps"), Code::resource};
  steps_ += n;
}

void Budget::take(std::size_t bytes) {
  step(bytes / 64);
  if (bytes > kMaxBytes - std::min(kMaxBytes, bytes_))
    throw Failure{concat("the template needs more than ", kMaxBytes >> 20, " MiB"), Code::resource};
  bytes_ += bytes;
}

Value Value::undefined(std::string why) {
  Value out;
  out.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return out;
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto* b = get<bool>()) return *b;
  if (const auto* i = get<std::int64_t>()) return *i;
  return std::nullopt;
}

double Value::number() const {
  if (const auto i = integer()) return static_cast<double>(*i);
  return *get<double>();
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (text()) return !text()->bytes.empty();
  if (list()) return list()->style == List::Style::iterator || !list()->items.empty();
  return !dict() || !dict()->entries.empty();
}

int Value::depth() const { return list() ? list()->depth : dict() ? dict()->depth : 0; }

std::size_t Value::size() const {
  if (text()) return 1 + text()->bytes.size() / 64;
  return list() ? list()->size : dict() ? dict()->size : 1;
}

Text::Text(std::string data, bool is_safe, Budget* budget)
    : bytes(std::move(data)), safe(is_safe), charge_(budget, bytes.size() + 96), length_(code_points(bytes)) {}

List::List(Values values, Style list_style, Budget* budget)
    : items(std::move(values)),
      style(list_style),
      depth(one_deeper(deepest(items))),
      size(total_size(items)),
      charge_(budget, items.size() * sizeof(Value) + 96) {}

Dict::Dict(Entries pairs, Budget* budget) : charge_(budget, pairs.size() * 4 * sizeof(Value) + 128) {
  int inner = 0;
  for (auto& [key, value] : pairs) {
    if (budget) budget->step(key.size());
    if (!hashable(key)) throw Failure{concat("unhashable type: '", type_name(key), "'")};
    inner = std::max({inner, key.depth(), value.depth()});
    size = sum(size, sum(key.size(), value.size()));
    const auto [place, added] = index_.emplace(key, entries.size());
    if (added)
      entries.emplace_back(std::move(key), std::move(value));
    else
      entries[place->second].second = std::move(value);
  }
  depth = one_deeper(inner);
}

const Value* Dict::find(const Value& key) const {
  const auto place = index_.find(key);
  return place == index_.end() ? nullptr : &entries[place->second].second;
}

const Value* Dict::find(std::string_view key) const { return find(make_text(nullptr, std::string(key))); }

std::size_t HashValue::operator()(const Value& v) const {
  if (v.is_none()) return 1;
  if (v.is_number()) return std::hash<double>()(v.number());
  if (v.text()) return std::hash<std::string>()(v.text()->bytes);
  std::size_t hash = 2;
  if (v.list())
    for (const auto& item : v.list()->items) hash = mix(hash, operator()(item));
  return hash;
}

bool EqualValue::operator()(const Value& a, const Value& b) const { return equal(a, b); }

bool hashable(const Value& v) {
  if (v.dict()) return false;
  if (!v.list()) return true;
  return v.list()->is_tuple() && std::all_of(v.list()->items.begin(), v.list()->items.end(), hashable);
}

void Args::bind(std::string_view function, std::string_view names) {
  const auto refuse = [&](const std::string& what) { throw Failure{std::string(function) + "() " + what}; };
  std::size_t count = 0;
  std::vector<bool> used(named.size());
  for (std::size_t begin = 0; begin < names.size(); ++count) {
    const auto end = std::min(names.find(' ', begin), names.size());
    auto name = names.substr(begin, end - begin);
    begin = end + 1;
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    const auto hit = std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
    if (hit != named.end()) {
      if (count < positional.size()) refuse(concat("got multiple values for argument '", name, "'"));
      positional.resize(count);
      positional.push_back(hit->second);
      used[static_cast<std::size_t>(hit - named.begin())] = true;
    } else if (count >= positional.size()) {
      if (!optional) refuse(concat("misses the argument '", name, "'"));
      positional.emplace_back();
    }
  }
  if (positional.size() > count) refuse(concat("takes ", count, " arguments at most, ", positional.size(), " given"));
  for (std::size_t i = 0; i < named.size(); ++i)
    if (!used[i]) refuse(concat("got an unexpected argument '", named[i].first, "'"));
  named.clear();
}

Value Object::call(Args) { throw Failure{concat("'", type_name(), "' object is not callable")}; }

Value make_text(Budget* budget, std::string bytes, bool safe) {
  return std::make_shared<const Text>(std::move(bytes), safe, budget);
}

Value make_list(Budget* budget, Values items, List::Style style) {
  return std::make_shared<const List>(std::move(items), style, budget);
}

Value make_dict(Budget* budget, Dict::Entries entries) {
  return std::make_shared<const Dict>(std::move(entries), budget);
}

std::string type_name(const Value& v) {
  static constexpr std::string_view kStyles[] = {"list",      "tuple",       "tuple",      "range",
                                                 "dict_keys", "dict_values", "dict_items", "generator"};
  if (v.is_undefined()) return "Undefined";
  if (v.is_none()) return "NoneType";
  if (v.get<bool>()) return "bool";
  if (v.get<std::int64_t>()) return "int";
  if (v.get<double>()) return "float";
  if (v.text()) return "str";
  if (v.list()) return std::string(kStyles[static_cast<std::size_t>(v.list()->style)]);
  return v.dict() ? "dict" : v.object()->type_name();
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0 && !is_nan(a) && !is_nan(b);
  if (a.text() && b.text()) return a.text()->bytes == b.text()->bytes;
  if (a.list() && b.list()) {
    const auto &x = *a.list(), &y = *b.list();
    if (&x == &y) return true;
    if (x.is_tuple() ? !y.is_tuple() : x.style != y.style) return false;
    return x.style != List::Style::iterator &&
           std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), equal);
  }
  if (a.dict() && b.dict()) {
    const auto &x = *a.dict(), &y = *b.dict();
    return x.entries.size() == y.entries.size() &&
           std::all_of(x.entries.begin(), x.entries.end(), [&](const auto& entry) {
             const auto* other = y.find(entry.first);
             return other && equal(entry.second, *other);
           });
  }
  if (a.object() || b.object()) return a.object() == b.object();
  return (a.is_undefined() && b.is_undefined()) || (a.is_none() && b.is_none());
}

int order(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.text() && b.text()) return a.text()->bytes.compare(b.text()->bytes);
  if (a.list() && b.list() && (a.list()->is_tuple() ? b.list()->is_tuple() : a.list()->style == b.list()->style)) {
    const auto &x = a.list()->items, &y = b.list()->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i])) return order(x[i], y[i]);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  for (const auto* v : {&a, &b})
    if (const auto* undefined = v->get<Undefined>(); undefined && undefined->why) throw Failure{*undefined->why};
  throw Failure{concat("'", type_name(a), "' and '", type_name(b), "' have no order")};
}

}  // namespace fourfold::jinja
