// Statements: output, branches, loops, assignments, macros.
#include <algorithm>

#include "text/jinja/evaluator.hpp"
#include "text/jinja/objects.hpp"
#include "text/jinja/print.hpp"

namespace fourfold::jinja {
namespace {

// Enters a scope for a lifetime.
class Entered {
 public:
  Entered(ScopePtr& current, const ScopePtr& parent) : current_(current), outside_(current) {
    current_ = std::make_shared<Scope>(Scope{parent, {}});
  }
  ~Entered() { current_ = std::move(outside_); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  ScopePtr& current_;
  ScopePtr outside_;
};

}  // namespace

std::string Evaluator::render(const Body& body) {
  run(body);
  return std::move(out_);
}

void Evaluator::write(std::string_view text) {
  budget_.take(text.size());
  out_ += text;
}

Flow Evaluator::run(const Body& body) {
  for (const auto& statement : body)
    if (const Flow flow = run(statement); flow != Flow::on) return flow;
  return Flow::on;
}

Flow Evaluator::run(const Statement& statement) {
  try {
    const Deeper deeper(*this);
    budget_.step();
    return std::visit([this](const auto& node) { return execute(node); }, statement.node);
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = statement.line;
    throw;
  }
}

Flow Evaluator::run_scoped(const Body& body) {
  const Entered entered(scope_, scope_);
  return run(body);
}

// What a body writes, as a text instead of output.
std::pair<Flow, Value> Evaluator::captured(const Body& body) {
  std::string outside = std::exchange(out_, {});
  const Flow flow = run_scoped(body);
  std::swap(outside, out_);
  budget_.give_back(outside.size());
  return {flow, text(std::move(outside))};
}

Flow Evaluator::execute(const Data& node) {
  write(node.text);
  return Flow::on;
}

Flow Evaluator::execute(const Output& node) {
  const Value value = evaluate(*node.value);
  write(Printed(value));
  return Flow::on;
}

Flow Evaluator::execute(const Do& node) {
  evaluate(*node.value);
  return Flow::on;
}

Flow Evaluator::execute(const If& node) {
  for (const auto& [test, body] : node.branches)
    if (evaluate(*test).truth()) return run(body);
  return run(node.otherwise);
}

Flow Evaluator::execute(const For& node) { return run_loop(node, evaluate(*node.items), 0); }

// The items that pass the loop's filter.
std::shared_ptr<const List> Evaluator::loop_items(const For& loop, const Value& items) {
  auto all = iterate(items);
  if (!loop.filter) return all;
  Values kept;
  for (const auto& item : all->items) {
    const Entered entered(scope_, scope_);
    assign(loop.target, item);
    if (evaluate(*loop.filter).truth()) kept.push_back(item);
  }
  return std::make_shared<const List>(std::move(kept), List::Style::list, &budget_);
}

Flow Evaluator::run_loop(const For& loop, const Value& from, int depth) {
  const auto items = loop_items(loop, from);
  bool completed = false;  // Jinja's else also runs where no iteration came to its end
  const auto state = std::make_shared<Loop>(*this, loop, scope_, items, depth);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    budget_.step();
    state->move_to(i);
    const Entered entered(scope_, scope_);
    scope_->names["loop"] = std::shared_ptr<Object>(state);
    assign(loop.target, items->items[i]);
    const Flow flow = run(loop.body);
    if (flow == Flow::leave_loop) break;
    completed |= flow == Flow::on;
  }
  return completed ? Flow::on : run_scoped(loop.otherwise);
}

Value Evaluator::run_loop_again(const For& loop, const ScopePtr& defined_in, const Value& items, int depth) {
  const ScopePtr outside = std::exchange(scope_, defined_in);
  std::string written = std::exchange(out_, {});
  run_loop(loop, items, depth);
  std::swap(written, out_);
  scope_ = outside;
  budget_.give_back(written.size());
  return text(std::move(written));
}

Flow Evaluator::execute(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::on;
}

Flow Evaluator::execute(const SetBlock& node) {
  auto [flow, value] = captured(node.body);
  if (flow != Flow::on) return flow;
  if (node.filter) value = filter_node(std::get<Filter>(node.filter->node), &value);
  assign(node.target, value);
  return Flow::on;
}

Flow Evaluator::execute(const With& node) {
  Values values;
  for (const auto& [target, value] : node.values) values.push_back(evaluate(*value));
  const Entered entered(scope_, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i]);
  return run(node.body);
}

Value Evaluator::make_macro(const Macro& macro) {
  const auto object = std::make_shared<MacroObject>(*this, macro, scope_);
  keep(object);
  return std::shared_ptr<Object>(object);
}

Flow Evaluator::execute(const MacroBlock& node) {
  scope_->names[node.macro->name] = make_macro(*node.macro);
  return Flow::on;
}

Flow Evaluator::execute(const CallBlock& node) {
  const Value caller = make_macro(*node.caller);
  const Value called = call_node(std::get<Call>(node.call->node), &caller);
  write(Printed(called));
  return Flow::on;
}

Flow Evaluator::execute(const FilterBlock& node) {
  const auto [flow, value] = captured(node.body);
  if (flow == Flow::on) write(to_text(filter_node(std::get<Filter>(node.filter->node), &value)));
  return flow;
}

Flow Evaluator::execute(const Scoped& node) { return run_scoped(node.body); }

void Evaluator::assign(const Target& target, const Value& value) {
  if (target.name.empty()) {
    const auto parts = iterate(value);
    if (parts->items.size() != target.items.size())
      throw Failure{std::to_string(target.items.size()) + " values to unpack expected, " +
                        std::to_string(parts->items.size()) + " found",
                    Code::invalid_argument, target.line};
    for (std::size_t i = 0; i < target.items.size(); ++i) assign(target.items[i], parts->items[i]);
  } else if (target.attribute.empty()) {
    scope_->names[target.name] = value;
  } else {
    const auto* object = find(target.name);
    auto* space = object ? dynamic_cast<Namespace*>(object->object()) : nullptr;
    if (!space)
      throw Failure{concat("'", target.name, "' is not a namespace: its attributes cannot be set"),
                    Code::invalid_argument, target.line};
    space->set(target.attribute, value);
  }
}

// The variables of a macro's call: parameters, then what its body uses of caller, kwargs and varargs.
void Evaluator::bind_macro(const Macro& macro, Args args, Scope& inside) {
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto it =
        std::find_if(args.named.begin(), args.named.end(), [&](const auto& pair) { return pair.first == name; });
    if (it == args.named.end()) return std::nullopt;
    Value value = std::move(it->second);
    args.named.erase(it);
    return value;
  };
  const auto& names = macro.parameters;
  const std::size_t first_default = names.size() - macro.defaults.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto given = i < args.positional.size() ? std::optional(args.positional[i]) : take_named(names[i]);
    if (!given && i >= first_default) given = evaluate(*macro.defaults[i - first_default]);
    inside.names[names[i]] = given ? *given : Value::undefined(concat("parameter '", names[i], "' was not provided"));
  }
  if (macro.uses_caller && !inside.names.contains("caller"))
    inside.names["caller"] = take_named("caller").value_or(Value::undefined("No caller defined"));
  if (macro.uses_kwargs) {
    Dict::Entries entries;
    for (const auto& [name, value] : args.named) entries.emplace_back(text(name), value);
    inside.names["kwargs"] = make_dict(&budget_, std::move(entries));
  } else if (!args.named.empty()) {
    throw Failure{concat("macro '", macro.name, "' takes no keyword argument '", args.named[0].first, "'")};
  }
  const auto taken = static_cast<std::ptrdiff_t>(std::min(names.size(), args.positional.size()));
  Values extra(args.positional.begin() + taken, args.positional.end());
  if (macro.uses_varargs)
    inside.names["varargs"] = list(std::move(extra), List::Style::tuple);
  else if (!extra.empty())
    throw Failure{concat("macro '", macro.name, "' takes not more than ", names.size(), " argument(s)")};
}

Value Evaluator::run_macro(const Macro& macro, const ScopePtr& defined_in, Args args) {
  const ScopePtr outside = std::exchange(scope_, std::make_shared<Scope>(Scope{defined_in, {}}));
  const ScopePtr inside = scope_;
  bind_macro(macro, std::move(args), *inside);
  std::string written = std::exchange(out_, {});
  run(macro.body);
  std::swap(written, out_);
  scope_ = outside;
  budget_.give_back(written.size());
  return text(std::move(written));
}

}  // namespace fourfold::jinja
