// Expressions: names, operators, attributes, calls.
#include "text/jinja/evaluator.hpp"

#include "text/jinja/builtins.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

constexpr int kMaxDepth = 800;  // of expressions, statements and macro calls under evaluation

std::string object_name(const Value& value) { return value.is_none() ? "None" : type_name(value) + " object"; }

}  // namespace

Evaluator::Deeper::Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
  if (evaluator_.depth_ >= kMaxDepth)
    throw Failure{concat("evaluation nested more than ", kMaxDepth, " deep"), Code::resource};
  ++evaluator_.depth_;
}

Evaluator::~Evaluator() {
  for (const auto& object : kept_) object->release();
}

Value Evaluator::evaluate(const Expr& expression) {
  try {
    const Deeper deeper(*this);
    budget_.step();
    return std::visit([this](const auto& node) { return visit(node); }, expression.node);
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = expression.line;
    throw;
  }
}

const Value* Evaluator::find(std::string_view name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get())
    if (const auto found = scope->names.find(name); found != scope->names.end()) return &found->second;
  return context_.find(name);
}

Value Evaluator::visit(const Name& node) {
  if (const auto* found = find(node.name)) return *found;
  if (const auto* global = find_global(node.name))
    return std::shared_ptr<Object>(std::make_shared<Function>(*this, *global, Value()));
  return Value::undefined(concat("'", node.name, "' is undefined"));
}

Value Evaluator::visit(const ListExpr& node) {
  Values items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(evaluate(*item));
  return list(std::move(items), node.tuple ? List::Style::tuple : List::Style::list);
}

Value Evaluator::visit(const DictExpr& node) {
  Dict::Entries entries;
  for (const auto& [key, value] : node.items) {
    auto k = evaluate(*key);
    entries.emplace_back(std::move(k), evaluate(*value));
  }
  return make_dict(&budget_, std::move(entries));
}

Value Evaluator::visit(const Unary& node) {
  const Value value = evaluate(*node.operand);
  return node.op == Op::logical_not ? Value(!value.truth()) : signed_value(node.op, value);
}

Value Evaluator::visit(const Binary& node) {
  const Value left = evaluate(*node.left);
  if (node.op == Op::logical_and) return left.truth() ? evaluate(*node.right) : left;
  if (node.op == Op::logical_or) return left.truth() ? left : evaluate(*node.right);
  return arithmetic(budget_, node.op, left, evaluate(*node.right));
}

Value Evaluator::visit(const Concat& node) {
  std::string out;
  for (const auto& part : node.parts) {
    const Value value = evaluate(*part);
    const Printed piece(value);
    budget_.step(std::string_view(piece).size() / 64);
    append(out, piece);
  }
  return text(std::move(out));
}

Value Evaluator::visit(const Compare& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, expression] : node.rest) {
    Value right = evaluate(*expression);
    if (!compare(budget_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::visit(const Conditional& node) {
  if (evaluate(*node.test).truth()) return evaluate(*node.yes);
  return node.no ? evaluate(*node.no) : Value::undefined("the inline if was false and has no else");
}

Value Evaluator::visit(const Attribute& node) { return attribute(evaluate(*node.object), node.name); }

Value Evaluator::visit(const Item& node) {
  const Value object = evaluate(*node.object);
  return item(object, evaluate(*node.key));
}

Value Evaluator::value_or_undefined(const ExprPtr& expression) { return expression ? evaluate(*expression) : Value(); }

Value Evaluator::visit(const Slice& node) {
  const Value object = evaluate(*node.object);
  const Value start = value_or_undefined(node.start), stop = value_or_undefined(node.stop);
  return slice(budget_, object, start, stop, value_or_undefined(node.step));
}

Value Evaluator::visit(const Test& node) {
  const Value input = evaluate(*node.input);
  return test(node.name, input, arguments(node.args));
}

Value Evaluator::call_node(const Call& node, const Value* caller) {
  const Value callee = evaluate(*node.callee);
  Args args = arguments(node.args);
  if (caller) args.named.emplace_back("caller", *caller);
  return call(callee, std::move(args));
}

Value Evaluator::filter_node(const Filter& node, const Value* block) {
  const auto* inner = node.input ? std::get_if<Filter>(&node.input->node) : nullptr;
  const Value input = inner && block ? filter_node(*inner, block) : node.input ? evaluate(*node.input) : *block;
  return filter(node.name, input, arguments(node.args));
}

Args Evaluator::arguments(const CallArgs& args) {
  Args out;
  for (const auto& value : args.positional) out.positional.push_back(evaluate(*value));
  for (const auto& [name, value] : args.named) out.named.emplace_back(name, evaluate(*value));
  if (args.rest) {
    const auto rest = iterate(evaluate(*args.rest));
    out.positional.insert(out.positional.end(), rest->items.begin(), rest->items.end());
  }
  if (args.named_rest) {
    const Value rest = evaluate(*args.named_rest);
    if (!rest.dict()) throw Failure{concat("an argument after ** must be a dict, not '", type_name(rest), "'")};
    for (const auto& [key, value] : rest.dict()->entries) {
      if (!key.text()) throw Failure{"keywords must be texts"};
      for (const auto& [name, other] : out.named)
        if (name == key.text()->bytes) throw Failure{concat("the argument '", name, "' is given twice")};
      out.named.emplace_back(key.text()->bytes, value);
    }
  }
  return out;
}

Value Evaluator::filter(std::string_view name, const Value& input, Args args) {
  const auto* found = find_filter(name);
  if (!found) throw Failure{concat("no filter named '", name, "'")};
  return run_builtin(*found, *this, input, std::move(args));
}

bool Evaluator::test(std::string_view name, const Value& input, Args args) {
  const auto* found = find_test(name);
  if (!found) throw Failure{concat("no test named '", name, "'")};
  return run_builtin(*found, *this, input, std::move(args)).truth();
}

Value Evaluator::call(const Value& callee, Args args) {
  const Deeper deeper(*this);
  require_defined(callee);
  const auto object = callee.shared_object();
  if (!object || !object->callable()) throw Failure{concat("'", type_name(callee), "' object is not callable")};
  return object->call(std::move(args));
}

Value Evaluator::attribute(const Value& value, std::string_view name) {
  require_defined(value);
  if (name.starts_with('_') || changes_its_object(value, name))
    if (!value.dict() || !value.dict()->find(name) || changes_its_object(value, name))
      return Value::undefined(concat("access to attribute '", name, "' of '", type_name(value), "' object is unsafe"));
  if (value.object())
    if (auto found = value.object()->attribute(name)) return *found;
  if (const auto* method = find_method(value, name))
    return std::shared_ptr<Object>(std::make_shared<Function>(*this, *method, value));
  if (value.list() && value.list()->style == List::Style::group && (name == "grouper" || name == "list"))
    return value.list()->items[name == "list"];
  if (value.dict())
    if (const auto* found = value.dict()->find(name)) return *found;
  return Value::undefined(concat("'", object_name(value), "' has no attribute '", name, "'"));
}

Value Evaluator::item(const Value& value, const Value& key) {
  require_defined(value);
  const auto index = key.integer();
  const auto inside = [&](std::size_t length) {
    const auto n = static_cast<std::int64_t>(length);
    return *index >= -n && *index < n;
  };
  if (value.dict()) {
    budget_.step(key.size());
    if (hashable(key))
      if (const auto* found = value.dict()->find(key)) return *found;
  } else if (index && value.list() && value.list()->is_sequence()) {
    const auto& items = value.list()->items;
    if (inside(items.size()))
      return items[static_cast<std::size_t>(*index < 0 ? *index + static_cast<std::int64_t>(items.size()) : *index)];
  } else if (index && value.text() && inside(value.text()->length())) {
    return slice(budget_, value, key, *index == -1 ? Value(None{}) : Value(*index + 1), Value());
  }
  if (key.text() && !value.dict()) return attribute(value, key.text()->bytes);
  if (key.text())
    if (const auto* method = find_method(value, key.text()->bytes))
      return std::shared_ptr<Object>(std::make_shared<Function>(*this, *method, value));
  return Value::undefined(concat("'", object_name(value), "' has no element ", repr(key)));
}

}  // namespace fourfold::jinja
