// The tables of built-in filters, tests, methods and global functions.
#pragma once

#include <span>

#include "text/jinja/evaluator.hpp"

namespace fourfold::jinja {

struct Builtin {
  std::string_view name;
  // `self`: what is filtered, tested or called on; `args` are bound to the parameters, or raw if these are "*".
  Value (*run)(Evaluator& evaluator, const Value& self, Args& args);
  std::string_view parameters;  // as Args::bind takes them
};

const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);
bool changes_its_object(const Value& self, std::string_view name);  // a method that immutable values do not have

Value run_builtin(const Builtin& builtin, Evaluator& evaluator, const Value& self, Args args);

// A built-in as a value that can be called.
class Function final : public Object {
 public:
  Function(Evaluator& evaluator, const Builtin& builtin, Value self)
      : Object(&evaluator.budget()), evaluator_(evaluator), builtin_(builtin), self_(std::move(self)) {}
  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Args args) override { return run_builtin(builtin_, evaluator_, self_, std::move(args)); }

 private:
  Evaluator& evaluator_;
  const Builtin& builtin_;
  Value self_;
};

// Arguments as C++ values; a wrong type is a Failure.
std::int64_t integer_argument(const Args& args, std::size_t i, std::int64_t fallback);
bool flag_argument(const Args& args, std::size_t i, bool fallback);
std::string text_argument(const Args& args, std::size_t i, std::string fallback);

// Rows of the tables, by file.
std::span<const Builtin> text_filters();
std::span<const Builtin> data_filters();
std::span<const Builtin> select_filters();

}  // namespace fourfold::jinja
