// The tree of a template: expressions and statements, each with the line it begins on.
#pragma once

#include "text/jinja/value.hpp"

namespace fourfold::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using ExprList = std::vector<ExprPtr>;

enum class Op {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  logical_and,
  logical_or,
  logical_not,
  negate,
  plus
};

struct CallArgs {
  ExprList positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest;        // *expression
  ExprPtr named_rest;  // **expression
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListExpr {
  bool tuple;
  ExprList items;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct Unary {
  Op op;
  ExprPtr operand;
};
struct Binary {  // arithmetic, and, or
  Op op;
  ExprPtr left, right;
};
struct Concat {
  ExprList parts;
};
struct Compare {
  ExprPtr first;
  std::vector<std::pair<Op, ExprPtr>> rest;
};
struct Conditional {
  ExprPtr test, yes, no;  // no: may be absent
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Item {
  ExprPtr object, key;
};
struct Slice {
  ExprPtr object, start, stop, step;  // the last three may be absent
};
struct Call {
  ExprPtr callee;
  CallArgs args;
};
struct Filter {
  ExprPtr input;  // absent: the text that a block rendered
  std::string name;
  CallArgs args;
};
struct Test {
  ExprPtr input;
  std::string name;
  CallArgs args;
};

struct Expr {
  int line;
  int height;  // of the tree below
  std::variant<Literal, Name, ListExpr, DictExpr, Unary, Binary, Concat, Compare, Conditional, Attribute, Item, Slice,
               Call, Filter, Test>
      node;
};

struct Target {  // what can be assigned to
  int line = 0;
  std::string name;           // empty: a tuple
  std::string attribute;      // of the namespace `name`; empty: the variable itself
  std::vector<Target> items;  // of a tuple
};

struct Statement;
using Body = std::vector<Statement>;

struct Data {
  std::string text;
};
struct Output {
  ExprPtr value;
};
struct Do {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExprPtr items;
  ExprPtr filter;  // may be absent
  bool recursive = false;
  Body body, otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filter;  // may be absent
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> values;
  Body body;
};
struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  ExprList defaults;  // of the last parameters
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  Body body;
};
struct MacroBlock {
  std::unique_ptr<Macro> macro;
};
struct CallBlock {
  std::unique_ptr<Macro> caller;
  ExprPtr call;
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct Scoped {  // {% generation %}
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Data, Output, Do, If, For, Set, SetBlock, With, MacroBlock, CallBlock, FilterBlock, Scoped, Break,
               Continue>
      node;
};

// Throws Failure with its line.
Body parse_template(std::string_view source);

}  // namespace fourfold::jinja
