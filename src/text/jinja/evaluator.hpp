// Walks a template's tree and writes its text. One Evaluator renders once.
#pragma once

#include "text/jinja/ast.hpp"
#include "text/jinja/operators.hpp"

namespace fourfold::jinja {

// The variables of a block, and the block around it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::unordered_map<std::string_view, Value> names;  // views of the template's tree
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { on, leave_loop, next_item };

class Evaluator {
 public:
  explicit Evaluator(const Dict& context) : context_(context), scope_(std::make_shared<Scope>()) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  std::string render(const Body& body);

  Budget& budget() { return budget_; }
  Value text(std::string bytes, bool safe = false) { return make_text(&budget_, std::move(bytes), safe); }
  Value list(Values items, List::Style style = List::Style::list) {
    return make_list(&budget_, std::move(items), style);
  }

  Value filter(std::string_view name, const Value& input, Args args);
  bool test(std::string_view name, const Value& input, Args args);
  Value call(const Value& callee, Args args);
  Value attribute(const Value& value, std::string_view name);  // value.name: a method or attribute before an item
  Value item(const Value& value, const Value& key);            // value[key]: an item before an attribute
  std::shared_ptr<const List> iterate(const Value& value) { return jinja::iterate(budget_, value); }

  Value run_macro(const Macro& macro, const ScopePtr& defined_in, Args args);
  Value run_loop_again(const For& loop, const ScopePtr& defined_in, const Value& items, int depth);

  // Keeps an object until the end, when it is told to drop its references.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

 private:
  // One more level of evaluation, for a lifetime.
  class Deeper {
   public:
    explicit Deeper(Evaluator& evaluator);
    ~Deeper() { --evaluator_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Evaluator& evaluator_;
  };

  Value evaluate(const Expr& expression);
  Value visit(const Literal& node) { return node.value; }
  Value visit(const Name& node);
  Value visit(const ListExpr& node);
  Value visit(const DictExpr& node);
  Value visit(const Unary& node);
  Value visit(const Binary& node);
  Value visit(const Concat& node);
  Value visit(const Compare& node);
  Value visit(const Conditional& node);
  Value visit(const Attribute& node);
  Value visit(const Item& node);
  Value visit(const Slice& node);
  Value visit(const Call& node) { return call_node(node, nullptr); }
  Value visit(const Filter& node) { return filter_node(node, nullptr); }
  Value visit(const Test& node);
  Value call_node(const Call& node, const Value* caller);
  Value filter_node(const Filter& node, const Value* block);
  Args arguments(const CallArgs& args);
  Value value_or_undefined(const ExprPtr& expression);

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow execute(const Data& node);
  Flow execute(const Output& node);
  Flow execute(const Do& node);
  Flow execute(const If& node);
  Flow execute(const For& node);
  Flow execute(const Set& node);
  Flow execute(const SetBlock& node);
  Flow execute(const With& node);
  Flow execute(const MacroBlock& node);
  Flow execute(const CallBlock& node);
  Flow execute(const FilterBlock& node);
  Flow execute(const Scoped& node);
  Flow execute(const Break&) { return Flow::leave_loop; }
  Flow execute(const Continue&) { return Flow::next_item; }
  Flow run_scoped(const Body& body);
  Flow run_loop(const For& loop, const Value& items, int depth);
  std::shared_ptr<const List> loop_items(const For& loop, const Value& items);
  std::pair<Flow, Value> captured(const Body& body);
  Value make_macro(const Macro& macro);
  void bind_macro(const Macro& macro, Args args, Scope& inside);

  void write(std::string_view text);
  void assign(const Target& target, const Value& value);
  const Value* find(std::string_view name) const;

  Budget budget_;
  const Dict& context_;
  ScopePtr scope_;
  std::string out_;
  std::vector<std::shared_ptr<Object>> kept_;
  int depth_ = 0;
};

}  // namespace fourfold::jinja
