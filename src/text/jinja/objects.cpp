#include "text/jinja/objects.hpp"

#include <algorithm>

#include "text/jinja/builtins.hpp"

namespace fourfold::jinja {
namespace {

using Int = std::int64_t;

const Builtin kCycle = {
    "cycle", [](Evaluator&, const Value& self, Args& args) { return static_cast<Loop&>(*self.object()).cycle(args); },
    "*"};

const Builtin kChanged = {"changed",
                          [](Evaluator&, const Value& self, Args& args) -> Value {
                            return static_cast<Loop&>(*self.object()).changed(std::move(args));
                          },
                          "*"};

const Builtin kNext = {
    "next", [](Evaluator&, const Value& self, Args&) { return static_cast<Cycler&>(*self.object()).next(); }, ""};

const Builtin kReset = {"reset",
                        [](Evaluator&, const Value& self, Args&) -> Value {
                          static_cast<Cycler&>(*self.object()).reset();
                          return None{};
                        },
                        ""};

Value method(Evaluator& evaluator, const Builtin& builtin, Object& self) {
  return std::shared_ptr<Object>(std::make_shared<Function>(evaluator, builtin, self.shared_from_this()));
}

}  // namespace

std::optional<Value> Namespace::attribute(std::string_view name) {
  const auto found = attributes_.find(std::string(name));
  return found == attributes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Value> Loop::attribute(std::string_view name) {
  const auto& items = items_->items;
  const auto number = [](std::size_t n) { return Value(static_cast<Int>(n)); };
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "revindex") return number(items.size() - index_);
  if (name == "revindex0") return number(items.size() - index_ - 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(index_ + 1 == items.size());
  if (name == "length") return number(items.size());
  if (name == "depth") return Value(Int{depth_} + 1);
  if (name == "depth0") return Value(Int{depth_});
  if (name == "previtem") return index_ > 0 ? items[index_ - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index_ + 1 < items.size() ? items[index_ + 1] : Value::undefined("there is no next item");
  if (name == "cycle") return method(evaluator_, kCycle, *this);
  if (name == "changed") return method(evaluator_, kChanged, *this);
  return std::nullopt;
}

std::string Loop::repr() const { return concat("<LoopContext ", index_ + 1, "/", items_->items.size(), ">"); }

Value Loop::call(Args args) {
  if (!node_.recursive) throw Failure{"the loop must be marked 'recursive' to be called"};
  args.bind("loop", "iterable");
  return evaluator_.run_loop_again(node_, defined_in_, args[0], depth_ + 1);
}

Value Loop::cycle(const Args& args) const {
  if (args.positional.empty()) throw Failure{"loop.cycle() expects values"};
  return args.positional[index_ % args.positional.size()];
}

bool Loop::changed(Args args) {
  const bool same = last_seen_ && std::equal(last_seen_->begin(), last_seen_->end(), args.positional.begin(),
                                             args.positional.end(), [&](const Value& a, const Value& b) {
                                               return compare(evaluator_.budget(), Op::equal, a, b);
                                             });
  if (same) return false;
  if (!last_seen_) evaluator_.keep(shared_from_this());
  last_seen_ = std::move(args.positional);
  return true;
}

std::optional<Value> MacroObject::attribute(std::string_view name) {
  if (name == "name") return evaluator_.text(node_.name);
  if (name == "catch_kwargs") return Value(node_.uses_kwargs);
  if (name == "catch_varargs") return Value(node_.uses_varargs);
  if (name == "caller") return Value(node_.uses_caller);
  if (name != "arguments") return std::nullopt;
  Values names;
  for (const auto& parameter : node_.parameters) names.push_back(evaluator_.text(parameter));
  return evaluator_.list(std::move(names), List::Style::tuple);
}

std::optional<Value> Cycler::attribute(std::string_view name) {
  if (name == "current") return items_[at_];
  if (name == "next") return method(evaluator_, kNext, *this);
  if (name == "reset") return method(evaluator_, kReset, *this);
  return std::nullopt;
}

}  // namespace fourfold::jinja
