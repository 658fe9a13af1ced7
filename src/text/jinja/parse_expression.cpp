// Expressions, in Jinja's order of binding: if, or, and, not, comparison, + -, ~, * / // %, **, sign, postfix, filters.
#include <algorithm>
#include <charconv>

#include "text/jinja/parser.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

using Kind = Token::Kind;

int height(const ExprPtr& e) { return e ? e->height : 0; }
int height(const ExprList& list) {
  int most = 0;
  for (const auto& e : list) most = std::max(most, height(e));
  return most;
}
int height(const CallArgs& args) {
  int most = std::max({height(args.positional), height(args.rest), height(args.named_rest)});
  for (const auto& [name, value] : args.named) most = std::max(most, height(value));
  return most;
}

// A node above subtrees of the given heights.
template <class Node>
ExprPtr make(int line, Node node, std::initializer_list<int> below) {
  constexpr int kTallest = 2 * kMaxNesting;
  const int tallest = below.size() == 0 ? 0 : std::max(below);
  if (tallest >= kTallest)
    throw Failure{concat("an expression of more than ", kTallest, " operations in a row"), Code::resource, line};
  return std::make_unique<Expr>(Expr{line, tallest + 1, std::move(node)});
}

struct Operator {
  std::string_view symbol;
  Op op;
};

}  // namespace

ExprPtr Parser::expression(bool conditional) {
  const Nested nested(*this);
  if (!conditional) return logical_or();
  int line = now().line;
  auto value = logical_or();
  while (skip_word("if")) {
    auto test = logical_or();
    ExprPtr otherwise = skip_word("else") ? expression() : nullptr;
    const int below = std::max({height(value), height(test), height(otherwise)});
    value = make(line, Conditional{std::move(test), std::move(value), std::move(otherwise)}, {below});
    line = now().line;
  }
  return value;
}

bool Parser::tuple_ends(std::string_view end_word) const {
  return now().kind == Kind::variable_end || now().kind == Kind::block_end || is(")") ||
         (!end_word.empty() && is_word(end_word));
}

// One expression, or a tuple of several with commas between them.
ExprPtr Parser::tuple(bool conditional, std::string_view end_word, bool parentheses) {
  const int line = now().line;
  ExprList items;
  bool comma = false;
  while (!tuple_ends(end_word)) {
    items.push_back(expression(conditional));
    if (!skip(",")) break;
    comma = true;
  }
  if (!comma && !items.empty()) return std::move(items[0]);
  if (!comma && !parentheses) fail(concat("an expression expected, ", found(), " found"));
  const int below = height(items);
  return make(line, ListExpr{true, std::move(items)}, {below});
}

ExprPtr Parser::logical_or() { return joined("or", Op::logical_or, &Parser::logical_and); }
ExprPtr Parser::logical_and() { return joined("and", Op::logical_and, &Parser::logical_not); }

// Operands with a word between them, grouped from the left.
ExprPtr Parser::joined(std::string_view word, Op op, ExprPtr (Parser::*operand)()) {
  const int line = now().line;
  auto left = (this->*operand)();
  while (skip_word(word)) {
    auto right = (this->*operand)();
    const int l = height(left), r = height(right);
    left = make(line, Binary{op, std::move(left), std::move(right)}, {l, r});
  }
  return left;
}

ExprPtr Parser::logical_not() {
  const int line = now().line;
  if (!skip_word("not")) return compare();
  const Nested nested(*this);
  auto operand = logical_not();
  const int below = height(operand);
  return make(line, Unary{Op::logical_not, std::move(operand)}, {below});
}

ExprPtr Parser::compare() {
  static constexpr Operator kOperators[] = {{"==", Op::equal},      {"!=", Op::not_equal}, {"<", Op::less},
                                            {"<=", Op::less_equal}, {">", Op::greater},    {">=", Op::greater_equal}};
  const int line = now().line;
  auto first = sum();
  std::vector<std::pair<Op, ExprPtr>> rest;
  for (;;) {
    const auto* hit =
        std::find_if(std::begin(kOperators), std::end(kOperators), [&](const auto& o) { return is(o.symbol); });
    if (hit != std::end(kOperators)) {
      next();
      rest.emplace_back(hit->op, sum());
    } else if (skip_word("in")) {
      rest.emplace_back(Op::in, sum());
    } else if (is_word("not") && after().kind == Kind::name && after().text == "in") {
      next();
      next();
      rest.emplace_back(Op::not_in, sum());
    } else {
      break;
    }
  }
  if (rest.empty()) return first;
  int below = height(first);
  for (const auto& [op, value] : rest) below = std::max(below, height(value));
  return make(line, Compare{std::move(first), std::move(rest)}, {below});
}

ExprPtr Parser::sum() {
  const int line = now().line;
  auto left = concatenation();
  while (is("+") || is("-")) {
    const Op op = next().text == "+" ? Op::add : Op::subtract;
    auto right = concatenation();
    const int l = height(left), r = height(right);
    left = make(line, Binary{op, std::move(left), std::move(right)}, {l, r});
  }
  return left;
}

ExprPtr Parser::concatenation() {
  const int line = now().line;
  ExprList parts;
  do parts.push_back(product());
  while (skip("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  const int below = height(parts);
  return make(line, Concat{std::move(parts)}, {below});
}

ExprPtr Parser::product() {
  static constexpr Operator kOperators[] = {
      {"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}};
  const int line = now().line;
  auto left = power();
  for (;;) {
    const auto* hit =
        std::find_if(std::begin(kOperators), std::end(kOperators), [&](const auto& o) { return is(o.symbol); });
    if (hit == std::end(kOperators)) return left;
    next();
    auto right = power();
    const int l = height(left), r = height(right);
    left = make(line, Binary{hit->op, std::move(left), std::move(right)}, {l, r});
  }
}

ExprPtr Parser::power() {
  const int line = now().line;
  auto left = unary(true);
  while (skip("**")) {
    auto right = unary(true);
    const int l = height(left), r = height(right);
    left = make(line, Binary{Op::power, std::move(left), std::move(right)}, {l, r});
  }
  return left;
}

ExprPtr Parser::unary(bool filters) {
  const Nested nested(*this);
  const int line = now().line;
  ExprPtr value;
  if (is("-") || is("+")) {
    const Op op = next().text == "-" ? Op::negate : Op::plus;
    auto operand = unary(false);
    const int below = height(operand);
    value = make(line, Unary{op, std::move(operand)}, {below});
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return filters ? filtered(std::move(value)) : std::move(value);
}

ExprPtr Parser::primary() {
  const int line = now().line;
  switch (now().kind) {
    case Kind::name:
      return name_or_constant();
    case Kind::integer:
    case Kind::floating:
      return number();
    case Kind::string: {
      std::string text;
      while (now().kind == Kind::string) text += next().text;
      return make(line, Literal{make_text(nullptr, std::move(text))}, {});
    }
    default:
      break;
  }
  if (is("[")) return list();
  if (is("{")) return dict();
  if (!skip("(")) fail(concat("unexpected ", found()));
  auto value = tuple(true, {}, true);
  expect(")");
  return value;
}

ExprPtr Parser::name_or_constant() {
  const Token token = next();
  const auto& name = token.text;
  if (name == "true" || name == "True") return make(token.line, Literal{true}, {});
  if (name == "false" || name == "False") return make(token.line, Literal{false}, {});
  if (name == "none" || name == "None") return make(token.line, Literal{None{}}, {});
  for (auto* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
  }
  return make(token.line, Name{name}, {});
}

ExprPtr Parser::number() {
  const Token token = next();
  std::string digits = token.text;
  std::erase(digits, '_');
  if (token.kind == Kind::floating) return make(token.line, Literal{*parse_double(digits)}, {});
  int base = 10;
  std::string_view rest = digits;
  if (rest.size() > 2 && rest[0] == '0' && (rest[1] < '0' || rest[1] > '9')) {
    base = (rest[1] | 0x20) == 'x' ? 16 : (rest[1] | 0x20) == 'o' ? 8 : 2;
    rest.remove_prefix(2);
  }
  std::int64_t value = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  const bool octal_looking = base == 10 && rest.size() > 1 && rest[0] == '0' && value != 0;
  if (end.ptr != rest.data() + rest.size() || octal_looking)
    throw Failure{concat("'", token.text, "' is not a number"), Code::malformed, token.line};
  if (end.ec != std::errc())
    throw Failure{concat("the integer ", token.text, " does not fit 64 bits"), Code::malformed, token.line};
  return make(token.line, Literal{value}, {});
}

ExprPtr Parser::list() {
  const int line = now().line;
  expect("[");
  ExprList items;
  while (!is("]")) {
    items.push_back(expression());
    if (!skip(",")) break;
  }
  expect("]");
  const int below = height(items);
  return make(line, ListExpr{false, std::move(items)}, {below});
}

ExprPtr Parser::dict() {
  const int line = now().line;
  expect("{");
  DictExpr dict;
  int below = 0;
  while (!is("}")) {
    auto key = expression();
    expect(":");
    auto value = expression();
    below = std::max({below, height(key), height(value)});
    dict.items.emplace_back(std::move(key), std::move(value));
    if (!skip(",")) break;
  }
  expect("}");
  return make(line, std::move(dict), {below});
}

ExprPtr Parser::postfix(ExprPtr value) {
  for (;;) {
    const int line = now().line;
    if (is(".") || is("[")) {
      value = subscript(std::move(value));
    } else if (is("(")) {
      auto args = call_args();
      const int below = std::max(height(value), height(args));
      value = make(line, Call{std::move(value), std::move(args)}, {below});
    } else {
      return value;
    }
  }
}

ExprPtr Parser::subscript(ExprPtr value) {
  const int line = now().line;
  const int below = height(value);
  if (skip(".")) {
    if (now().kind == Kind::integer) {
      auto key = number();
      return make(line, Item{std::move(value), std::move(key)}, {below});
    }
    return make(line, Attribute{std::move(value), expect_name("an attribute's name or a number")}, {below});
  }
  expect("[");
  ExprPtr start = is(":") ? nullptr : expression();
  if (!is(":")) {
    if (is(",")) {
      ExprList keys;
      keys.push_back(std::move(start));
      while (skip(",")) keys.push_back(expression());
      const int most = height(keys);
      start = make(line, ListExpr{true, std::move(keys)}, {most});
    }
    expect("]");
    const int key = height(start);
    return make(line, Item{std::move(value), std::move(start)}, {below, key});
  }
  expect(":");
  ExprPtr stop = is(":") || is("]") ? nullptr : expression();
  ExprPtr step = skip(":") && !is("]") ? expression() : nullptr;
  expect("]");
  const int parts = std::max({height(start), height(stop), height(step)});
  return make(line, Slice{std::move(value), std::move(start), std::move(stop), std::move(step)}, {below, parts});
}

// Filters, tests, and calls of what they give.
ExprPtr Parser::filtered(ExprPtr value) {
  for (;;) {
    const int line = now().line;
    if (is("|")) {
      value = filter_chain(std::move(value), false);
    } else if (skip_word("is")) {
      value = test(std::move(value));
    } else if (is("(")) {
      auto args = call_args();
      const int below = std::max(height(value), height(args));
      value = make(line, Call{std::move(value), std::move(args)}, {below});
    } else {
      return value;
    }
  }
}

// value|a|b(...); with first_inline the first filter has no bar, as in {% filter a %}.
ExprPtr Parser::filter_chain(ExprPtr value, bool first_inline) {
  while (first_inline || skip("|")) {
    first_inline = false;
    const int line = now().line;
    std::string name = expect_name("a filter's name");
    CallArgs args;
    if (is("(")) args = call_args();
    const int below = std::max(height(value), height(args));
    value = make(line, Filter{std::move(value), std::move(name), std::move(args)}, {below});
  }
  return value;
}

ExprPtr Parser::test(ExprPtr value) {
  const int line = now().line;
  const bool negated = skip_word("not");
  std::string name = expect_name("a test's name");
  CallArgs args;
  const bool operand = now().kind == Kind::name || now().kind == Kind::string || now().kind == Kind::integer ||
                       now().kind == Kind::floating || is("[") || is("{");
  if (is("(")) {
    args = call_args();
  } else if (is_word("is")) {
    fail("tests cannot be chained: put parentheses around the first");
  } else if (operand && !is_word("else") && !is_word("or") && !is_word("and") && !is_word("if")) {
    args.positional.push_back(postfix(primary()));
  }
  const int below = std::max(height(value), height(args));
  value = make(line, Test{std::move(value), std::move(name), std::move(args)}, {below});
  return negated ? make(line, Unary{Op::logical_not, std::move(value)}, {below + 1}) : std::move(value);
}

CallArgs Parser::call_args() {
  expect("(");
  CallArgs args;
  while (!is(")")) {
    call_argument(args);
    if (!skip(",")) break;
  }
  expect(")");
  return args;
}

void Parser::call_argument(CallArgs& args) {
  if (skip("*")) {
    if (args.rest || args.named_rest) fail("one '*' argument, before '**', expected");
    args.rest = expression();
  } else if (skip("**")) {
    if (args.named_rest) fail("one '**' argument expected");
    args.named_rest = expression();
  } else if (now().kind == Kind::name && after().kind == Kind::symbol && after().text == "=") {
    if (args.named_rest) fail("a named argument after '**'");
    std::string name = next().text;
    expect("=");
    for (const auto& [other, value] : args.named)
      if (other == name) fail(concat("the argument '", name, "' is given twice"));
    args.named.emplace_back(std::move(name), expression());
  } else {
    if (args.rest || args.named_rest || !args.named.empty()) fail("a positional argument after a named one");
    args.positional.push_back(expression());
  }
}

}  // namespace fourfold::jinja
