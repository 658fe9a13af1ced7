// Methods of dicts and lists, and which methods a value has.
#include "text/jinja/methods.hpp"

#include <algorithm>

namespace fourfold::jinja {
namespace {

using Int = std::int64_t;

Value get(Evaluator& e, const Value& self, Args& args) {
  e.budget().step(args[0].size());
  if (!hashable(args[0])) throw Failure{concat("unhashable type: '", type_name(args[0]), "'")};
  if (const auto* found = self.dict()->find(args[0])) return *found;
  return args.positional[1].is_undefined() && !args.has(1) ? Value(None{}) : args[1];
}

template <List::Style style>
Value view(Evaluator& e, const Value& self, Args&) {
  Values out;
  for (const auto& [key, value] : self.dict()->entries) {
    if (style == List::Style::items)
      out.push_back(e.list({key, value}, List::Style::tuple));
    else
      out.push_back(style == List::Style::keys ? key : value);
  }
  return e.list(std::move(out), style);
}

const Builtin kDictMethods[] = {
    {"copy", [](Evaluator&, const Value& self, Args&) { return self; }, ""},
    {"get", get, "key default?"},
    {"items", view<List::Style::items>, ""},
    {"keys", view<List::Style::keys>, ""},
    {"values", view<List::Style::values>, ""},
};

Value count(Evaluator& e, const Value& self, Args& args) {
  e.budget().step(self.size());
  const auto& items = self.list()->items;
  return static_cast<Int>(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, args[0]); }));
}

Value index(Evaluator& e, const Value& self, Args& args) {
  e.budget().step(self.size());
  const auto& items = self.list()->items;
  const Int n = static_cast<Int>(items.size());
  const auto bound = [&](std::size_t i, Int fallback) {
    const Int value = integer_argument(args, i, fallback);
    return std::clamp<Int>(value < 0 ? value + n : value, 0, n);
  };
  for (Int i = bound(1, 0); i < bound(2, n); ++i)
    if (equal(items[static_cast<std::size_t>(i)], args[0])) return i;
  throw Failure{"the value is not in the list"};
}

const Builtin kListMethods[] = {
    {"copy", [](Evaluator&, const Value& self, Args&) { return self; }, ""},
    {"count", count, "value"},
    {"index", index, "value start? stop?"},
};

constexpr std::string_view kListChanges[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

const Builtin* find(std::span<const Builtin> table, std::string_view name) {
  const auto row = std::find_if(table.begin(), table.end(), [&](const Builtin& b) { return b.name == name; });
  return row == table.end() ? nullptr : &*row;
}

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  if (self.text()) return find(text_methods(), name);
  if (self.dict()) return find(kDictMethods, name);
  if (!self.list() || !self.list()->is_sequence()) return nullptr;
  if (name == "copy" && self.list()->style != List::Style::list) return nullptr;
  return find(kListMethods, name);
}

bool changes_its_object(const Value& self, std::string_view name) {
  const auto has = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return (self.dict() && has(kDictChanges)) ||
         (self.list() && self.list()->style == List::Style::list && has(kListChanges));
}

}  // namespace fourfold::jinja
