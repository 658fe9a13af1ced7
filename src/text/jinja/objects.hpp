// The objects that templates hold: namespaces, loops, macros, cyclers and joiners.
#pragma once

#include "text/jinja/evaluator.hpp"

namespace fourfold::jinja {

class Namespace final : public Object {
 public:
  using Object::Object;
  std::string type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) override;
  void set(std::string_view name, Value value) { attributes_[std::string(name)] = std::move(value); }
  void release() override { attributes_.clear(); }

 private:
  std::unordered_map<std::string, Value> attributes_;
};

// The variable `loop` of a for block.
class Loop final : public Object {
 public:
  Loop(Evaluator& evaluator, const For& node, ScopePtr defined_in, std::shared_ptr<const List> items, int depth)
      : Object(&evaluator.budget()),
        evaluator_(evaluator),
        node_(node),
        defined_in_(std::move(defined_in)),
        items_(std::move(items)),
        depth_(depth) {}

  std::string type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Args args) override;
  void release() override { last_seen_ = {}; }

  void move_to(std::size_t index) { index_ = index; }
  Value cycle(const Args& args) const;
  bool changed(Args args);

 private:
  Evaluator& evaluator_;
  const For& node_;
  ScopePtr defined_in_;
  std::shared_ptr<const List> items_;
  std::size_t index_ = 0;
  int depth_;                        // 0: not within a recursive call
  std::optional<Values> last_seen_;  // arguments of the last changed()
};

class MacroObject final : public Object {
 public:
  MacroObject(Evaluator& evaluator, const Macro& node, ScopePtr defined_in)
      : Object(&evaluator.budget()), evaluator_(evaluator), node_(node), defined_in_(std::move(defined_in)) {}
  std::string type_name() const override { return "Macro"; }
  std::string repr() const override { return concat("<Macro '", node_.name, "'>"); }
  std::optional<Value> attribute(std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Args args) override { return evaluator_.run_macro(node_, defined_in_, std::move(args)); }
  void release() override { defined_in_.reset(); }

 private:
  Evaluator& evaluator_;
  const Macro& node_;
  ScopePtr defined_in_;
};

class Cycler final : public Object {
 public:
  Cycler(Evaluator& evaluator, Values items)
      : Object(&evaluator.budget()), evaluator_(evaluator), items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(std::string_view name) override;
  Value next() { return items_[std::exchange(at_, (at_ + 1) % items_.size())]; }
  void reset() { at_ = 0; }

 private:
  Evaluator& evaluator_;
  Values items_;
  std::size_t at_ = 0;
};

class Joiner final : public Object {
 public:
  Joiner(Evaluator& evaluator, Value separator)
      : Object(&evaluator.budget()), evaluator_(evaluator), separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Args) override { return std::exchange(used_, true) ? separator_ : evaluator_.text(""); }

 private:
  Evaluator& evaluator_;
  Value separator_;
  bool used_ = false;
};

}  // namespace fourfold::jinja
