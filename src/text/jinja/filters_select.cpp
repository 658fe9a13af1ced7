// Filters that pick, order, group or fold items, by attribute or by test.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/selectors.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {

Path attribute_path(Evaluator& e, const Value& attribute) {
  if (attribute.is_none() || attribute.is_undefined()) return {};
  if (!attribute.text()) return {attribute};
  Path out;
  std::string_view rest = attribute.text()->bytes;
  for (;;) {
    const auto dot = std::min(rest.find('.'), rest.size());
    const auto part = rest.substr(0, dot);
    const bool digits = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    out.push_back(digits ? Value(static_cast<std::int64_t>(std::stoll(std::string(part)))) : e.text(std::string(part)));
    if (dot == rest.size()) return out;
    rest.remove_prefix(dot + 1);
  }
}

Value follow(Evaluator& e, const Path& path, Value item, const Value* fallback) {
  for (const auto& part : path) {
    e.budget().step();
    item = e.item(item, part);
    if (fallback && item.is_undefined()) item = *fallback;
  }
  return item;
}

Value folded(Evaluator& e, const Value& value) {
  if (!value.text()) return value;
  e.budget().step(value.text()->bytes.size() / 8);
  return e.text(lower(value.text()->bytes));
}

Values sorted(Evaluator& e, std::vector<Keyed> rows, bool descending) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    for (std::size_t i = 0; i < a.key.size(); ++i) {
      e.budget().step(std::min(a.key[i].size(), b.key[i].size()));
      if (equal(a.key[i], b.key[i])) continue;
      return order(a.key[i], b.key[i]) < 0;
    }
    return false;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Keyed& a, const Keyed& b) { return descending ? before(b, a) : before(a, b); });
  Values out;
  for (auto& row : rows) out.push_back(std::move(row.item));
  return out;
}

namespace {

const Value* given(const Args& args, std::size_t i) { return args.has(i) && !args[i].is_none() ? &args[i] : nullptr; }

Value sort(Evaluator& e, const Value& self, Args& args) {
  const bool case_sensitive = flag_argument(args, 1, false);
  std::vector<Path> paths;
  if (args.has(2) && args[2].text()) {
    for (std::string_view rest = args[2].text()->bytes;;) {
      const auto comma = std::min(rest.find(','), rest.size());
      paths.push_back(attribute_path(e, e.text(std::string(rest.substr(0, comma)))));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.push_back(attribute_path(e, args[2]));
  }
  std::vector<Keyed> rows;
  const auto items = e.iterate(self);
  for (const auto& item : items->items) {
    Keyed row{{}, item};
    for (const auto& path : paths) {
      const Value key = follow(e, path, item);
      row.key.push_back(case_sensitive ? key : folded(e, key));
    }
    rows.push_back(std::move(row));
  }
  return e.list(sorted(e, std::move(rows), flag_argument(args, 0, false)));
}

Value unique(Evaluator& e, const Value& self, Args& args) {
  const bool case_sensitive = flag_argument(args, 0, false);
  const Path path = attribute_path(e, args[1]);
  std::unordered_map<Value, bool, HashValue, EqualValue> seen;
  Values out;
  const auto items = e.iterate(self);
  for (const auto& item : items->items) {
    const Value found = follow(e, path, item);
    const Value key = case_sensitive ? found : folded(e, found);
    e.budget().step(key.size());
    if (!hashable(key)) throw Failure{concat("unhashable type: '", type_name(key), "'")};
    if (seen.emplace(key, true).second) out.push_back(item);
  }
  return e.list(std::move(out), List::Style::iterator);
}

template <bool largest>
Value extreme(Evaluator& e, const Value& self, Args& args) {
  const bool case_sensitive = flag_argument(args, 0, false);
  const Path path = attribute_path(e, args[1]);
  const auto items = e.iterate(self);
  if (items->items.empty()) return Value::undefined("no aggregated item, the sequence was empty");
  const auto key = [&](const Value& item) {
    const Value found = follow(e, path, item);
    return case_sensitive ? found : folded(e, found);
  };
  Value best = items->items[0], best_key = key(best);
  for (std::size_t i = 1; i < items->items.size(); ++i) {
    Value candidate = key(items->items[i]);
    if (!compare(e.budget(), largest ? Op::greater : Op::less, candidate, best_key)) continue;
    best = items->items[i];
    best_key = std::move(candidate);
  }
  return best;
}

Value sum(Evaluator& e, const Value& self, Args& args) {
  const Path path = attribute_path(e, args[0]);
  Value total = args.has(1) ? args[1] : Value(std::int64_t{0});
  if (total.text()) throw Failure{"sum does not add texts: use join"};
  const auto items = e.iterate(self);
  for (const auto& item : items->items) total = arithmetic(e.budget(), Op::add, total, follow(e, path, item));
  return total;
}

Value group_by(Evaluator& e, const Value& self, Args& args) {
  const Path path = attribute_path(e, args[0]);
  const Value* fallback = given(args, 1);
  const bool case_sensitive = flag_argument(args, 2, false);
  std::vector<Keyed> rows;
  const auto items = e.iterate(self);
  const auto key = [&](const Value& item) {
    const Value found = follow(e, path, item, fallback);
    return case_sensitive ? found : folded(e, found);
  };
  for (const auto& item : items->items) rows.push_back({{key(item)}, item});
  Values out, group;
  Value group_key;
  const auto close = [&] {
    if (group.empty()) return;
    const Value grouper = follow(e, path, group[0], fallback);
    out.push_back(e.list({grouper, e.list(std::exchange(group, {}))}, List::Style::group));
  };
  for (const auto& item : sorted(e, std::move(rows), false)) {
    const Value item_key = key(item);
    if (!group.empty() && !compare(e.budget(), Op::equal, item_key, group_key)) close();
    group_key = item_key;
    group.push_back(item);
  }
  close();
  return e.list(std::move(out));
}

Value join(Evaluator& e, const Value& self, Args& args) {
  const std::string separator = args.has(0) ? to_text(args[0]) : "";
  const Path path = attribute_path(e, args[1]);
  const auto items = e.iterate(self);
  std::string out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) append(out, separator);
    const Value value = follow(e, path, items->items[i]);
    const Printed piece(value);
    e.budget().step((separator.size() + std::string_view(piece).size()) / 64);
    append(out, piece);
  }
  return e.text(std::move(out));
}

Args without_first(const Args& args, std::size_t n) {
  return {Values(args.positional.begin() + static_cast<std::ptrdiff_t>(n), args.positional.end()), args.named};
}

Value map(Evaluator& e, const Value& self, Args& args) {
  Values out;
  if (args.positional.empty() && !args.named.empty()) {
    args.bind("map", "attribute default?");
    const Path path = attribute_path(e, args[0]);
    const Value* fallback = given(args, 1);
    const auto items = e.iterate(self);
    for (const auto& item : items->items) out.push_back(follow(e, path, item, fallback));
  } else {
    if (args.positional.empty()) throw Failure{"map expects a filter's name or attribute="};
    const std::string name = text_argument(args, 0, "");
    const Args rest = without_first(args, 1);
    const auto items = e.iterate(self);
    for (const auto& item : items->items) {
      e.budget().step();
      out.push_back(e.filter(name, item, rest));
    }
  }
  return e.list(std::move(out), List::Style::iterator);
}

template <bool keep, bool by_attribute>
Value select(Evaluator& e, const Value& self, Args& args) {
  constexpr std::size_t kTest = by_attribute ? 1 : 0;
  if (by_attribute && args.positional.empty()) throw Failure{"an attribute's name expected"};
  const Path path = by_attribute ? attribute_path(e, args[0]) : Path{};
  const bool tested = args.positional.size() > kTest;
  const std::string name = tested ? text_argument(args, kTest, "") : "";
  const Args rest = tested ? without_first(args, kTest + 1) : Args{};
  Values out;
  const auto items = e.iterate(self);
  for (const auto& item : items->items) {
    e.budget().step();
    const Value value = follow(e, path, item);
    if ((tested ? e.test(name, value, rest) : value.truth()) == keep) out.push_back(item);
  }
  return e.list(std::move(out), List::Style::iterator);
}

const Builtin kFilters[] = {
    {"groupby", group_by, "attribute default? case_sensitive?"},
    {"join", join, "d? attribute?"},
    {"map", map, "*"},
    {"max", extreme<true>, "case_sensitive? attribute?"},
    {"min", extreme<false>, "case_sensitive? attribute?"},
    {"reject", select<false, false>, "*"},
    {"rejectattr", select<false, true>, "*"},
    {"select", select<true, false>, "*"},
    {"selectattr", select<true, true>, "*"},
    {"sort", sort, "reverse? case_sensitive? attribute?"},
    {"sum", sum, "attribute? start?"},
    {"unique", unique, "case_sensitive? attribute?"},
};

}  // namespace

std::span<const Builtin> select_filters() { return kFilters; }

}  // namespace fourfold::jinja
