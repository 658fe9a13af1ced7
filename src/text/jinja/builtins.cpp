// The tables' look-up, tests and global functions.
#include "text/jinja/builtins.hpp"

#include <cmath>
#include <ctime>

#include "text/jinja/objects.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

using Int = std::int64_t;

class Table {
 public:
  Table(std::initializer_list<std::span<const Builtin>> parts) {
    for (const auto part : parts)
      for (const auto& row : part) rows_[row.name] = &row;
  }
  const Builtin* find(std::string_view name) const {
    const auto found = rows_.find(name);
    return found == rows_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, const Builtin*> rows_;
};

template <Op op>
Value compared(Evaluator& e, const Value& self, Args& args) {
  return compare(e.budget(), op, self, args[0]);
}

template <Int remainder>
Value has_remainder(Evaluator& e, const Value& self, Args&) {
  return equal(arithmetic(e.budget(), Op::modulo, self, Int{2}), remainder);
}

bool same_case(const Value& v, std::string (*map)(std::string_view)) {
  const std::string text = to_text(v);
  return text == map(text) && upper(text) != lower(text);
}

bool same_object(const Value& a, const Value& b) {
  if (a.text() || b.text()) return a.text() && b.text() && a.text()->bytes == b.text()->bytes;
  if (a.list() || b.list()) return a.list() == b.list();
  if (a.dict() || b.dict()) return a.dict() == b.dict();
  return type_name(a) == type_name(b) && equal(a, b);
}

const Builtin kTests[] = {
    {"defined", [](Evaluator&, const Value& v, Args&) -> Value { return !v.is_undefined(); }, ""},
    {"undefined", [](Evaluator&, const Value& v, Args&) -> Value { return v.is_undefined(); }, ""},
    {"none", [](Evaluator&, const Value& v, Args&) -> Value { return v.is_none(); }, ""},
    {"boolean", [](Evaluator&, const Value& v, Args&) -> Value { return v.get<bool>() != nullptr; }, ""},
    {"true", [](Evaluator&, const Value& v, Args&) -> Value { return v.get<bool>() && v.truth(); }, ""},
    {"false", [](Evaluator&, const Value& v, Args&) -> Value { return v.get<bool>() && !v.truth(); }, ""},
    {"integer", [](Evaluator&, const Value& v, Args&) -> Value { return v.get<Int>() != nullptr; }, ""},
    {"float", [](Evaluator&, const Value& v, Args&) -> Value { return v.get<double>() != nullptr; }, ""},
    {"number", [](Evaluator&, const Value& v, Args&) -> Value { return v.is_number(); }, ""},
    {"string", [](Evaluator&, const Value& v, Args&) -> Value { return v.text() != nullptr; }, ""},
    {"mapping", [](Evaluator&, const Value& v, Args&) -> Value { return v.dict() != nullptr; }, ""},
    {"sequence",
     [](Evaluator&, const Value& v, Args&) -> Value {
       return v.text() || v.dict() || (v.list() && v.list()->is_sequence()) || v.is_undefined();
     },
     ""},
    {"iterable",
     [](Evaluator&, const Value& v, Args&) -> Value { return v.text() || v.list() || v.dict() || v.is_undefined(); },
     ""},
    {"callable",
     [](Evaluator&, const Value& v, Args&) -> Value {
       return v.is_undefined() || (v.object() && v.object()->callable());
     },
     ""},
    {"escaped", [](Evaluator&, const Value& v, Args&) -> Value { return v.text() && v.text()->safe; }, ""},
    {"odd", has_remainder<1>, ""},
    {"even", has_remainder<0>, ""},
    {"divisibleby",
     [](Evaluator& e, const Value& v, Args& args) -> Value {
       return equal(arithmetic(e.budget(), Op::modulo, v, args[0]), Int{0});
     },
     "num"},
    {"in", compared<Op::in>, "seq"},
    {"sameas", [](Evaluator&, const Value& v, Args& args) -> Value { return same_object(v, args[0]); }, "other"},
    {"lower", [](Evaluator&, const Value& v, Args&) -> Value { return same_case(v, lower); }, ""},
    {"upper", [](Evaluator&, const Value& v, Args&) -> Value { return same_case(v, upper); }, ""},
    {"filter", [](Evaluator&, const Value& v, Args&) -> Value { return find_filter(to_text(v)) != nullptr; }, ""},
    {"test", [](Evaluator&, const Value& v, Args&) -> Value { return find_test(to_text(v)) != nullptr; }, ""},
    {"eq", compared<Op::equal>, "other"},
    {"equalto", compared<Op::equal>, "other"},
    {"==", compared<Op::equal>, "other"},
    {"ne", compared<Op::not_equal>, "other"},
    {"!=", compared<Op::not_equal>, "other"},
    {"lt", compared<Op::less>, "other"},
    {"lessthan", compared<Op::less>, "other"},
    {"<", compared<Op::less>, "other"},
    {"le", compared<Op::less_equal>, "other"},
    {"<=", compared<Op::less_equal>, "other"},
    {"gt", compared<Op::greater>, "other"},
    {"greaterthan", compared<Op::greater>, "other"},
    {">", compared<Op::greater>, "other"},
    {"ge", compared<Op::greater_equal>, "other"},
    {">=", compared<Op::greater_equal>, "other"},
};

Value range(Evaluator& e, const Value&, Args& args) {
  constexpr Int kMost = 100000;  // as Jinja's sandbox
  const Value first = args[0];
  if (!args.has(1)) args.positional = {Int{0}, first, Int{1}};
  const Int start = integer_argument(args, 0, 0), stop = integer_argument(args, 1, 0);
  const Int step = integer_argument(args, 2, 1);
  if (step == 0) throw Failure{"range() with a step of 0"};
  const bool any = step > 0 ? start < stop : stop < start;
  const double count =
      any ? std::ceil((static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step)) : 0;
  if (count > static_cast<double>(kMost))
    throw Failure{concat("range() of more than ", kMost, " items"), Code::resource};
  Values items;
  for (Int i = 0; i < static_cast<Int>(count); ++i) items.push_back(start + i * step);
  return e.list(std::move(items), List::Style::range);
}

// {pairs...}, then the named arguments.
Dict::Entries pairs(Evaluator& e, const Args& args) {
  Dict::Entries out;
  if (args.positional.size() > 1) throw Failure{"one mapping or list of pairs expected"};
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    require_defined(from);
    if (from.dict()) {
      out = from.dict()->entries;
    } else {
      const auto items = e.iterate(from);
      for (const auto& item : items->items) {
        const auto pair = e.iterate(item);
        if (pair->items.size() != 2) throw Failure{"pairs of a key and a value expected"};
        out.emplace_back(pair->items[0], pair->items[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) out.emplace_back(e.text(name), value);
  e.budget().step(out.size());
  return out;
}

Value make_namespace(Evaluator& e, const Value&, Args& args) {
  const auto out = std::make_shared<Namespace>(&e.budget());
  for (const auto& [name, value] : pairs(e, args)) out->set(to_text(name), value);
  e.keep(out);
  return std::shared_ptr<Object>(out);
}

Value cycler(Evaluator& e, const Value&, Args& args) {
  if (args.positional.empty() || !args.named.empty()) throw Failure{"cycler() expects at least one value"};
  return std::shared_ptr<Object>(std::make_shared<Cycler>(e, std::move(args.positional)));
}

Value raise_exception(Evaluator&, const Value&, Args& args) { throw Failure{to_text(args[0])}; }

Value strftime_now(Evaluator& e, const Value&, Args& args) {
  const std::string format = text_argument(args, 0, "");
  if (format.size() > 1024) throw Failure{"strftime_now() with a format of more than 1024 bytes"};
  if (format.empty()) return e.text("");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(64 * format.size() + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &local));
  return e.text(std::move(out));
}

const Builtin kGlobals[] = {
    {"range", range, "start stop? step?"},
    {"dict", [](Evaluator& e, const Value&, Args& args) { return make_dict(&e.budget(), pairs(e, args)); }, "*"},
    {"namespace", make_namespace, "*"},
    {"cycler", cycler, "*"},
    {"joiner",
     [](Evaluator& e, const Value&, Args& args) -> Value {
       const Value separator = args.has(0) ? args[0] : e.text(", ");
       return std::shared_ptr<Object>(std::make_shared<Joiner>(e, separator));
     },
     "sep?"},
    {"raise_exception", raise_exception, "message"},
    {"strftime_now", strftime_now, "format"},
};

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const Table table{text_filters(), data_filters(), select_filters()};
  return table.find(name);
}

const Builtin* find_test(std::string_view name) {
  static const Table table{kTests};
  return table.find(name);
}

const Builtin* find_global(std::string_view name) {
  static const Table table{kGlobals};
  return table.find(name);
}

Value run_builtin(const Builtin& builtin, Evaluator& evaluator, const Value& self, Args args) {
  if (builtin.parameters != "*") args.bind(builtin.name, builtin.parameters);
  return builtin.run(evaluator, self, args);
}

std::int64_t integer_argument(const Args& args, std::size_t i, std::int64_t fallback) {
  if (!args.has(i)) return fallback;
  require_defined(args[i]);
  const auto value = args[i].integer();
  if (!value) throw Failure{concat("an integer expected, not '", type_name(args[i]), "'")};
  return *value;
}

bool flag_argument(const Args& args, std::size_t i, bool fallback) { return args.has(i) ? args[i].truth() : fallback; }

std::string text_argument(const Args& args, std::size_t i, std::string fallback) {
  if (!args.has(i)) return fallback;
  require_defined(args[i]);
  if (!args[i].text()) throw Failure{concat("a text expected, not '", type_name(args[i]), "'")};
  return args[i].text()->bytes;
}

}  // namespace fourfold::jinja
