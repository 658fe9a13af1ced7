// Statements, and what both halves of the parser stand on.
#include <algorithm>

#include "text/jinja/parser.hpp"

namespace fourfold::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kRefused[] = {"include", "import", "from", "extends", "block", "trans", "autoescape"};

bool is_constant(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" || name == "None";
}

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).parse(); }

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (parser_.depth_ >= kMaxNesting)
    throw Failure{concat("nested more than ", kMaxNesting, " deep"), Code::resource, parser_.now().line};
  ++parser_.depth_;
}

Token Parser::next() {
  Token token = now();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is(std::string_view symbol) const { return now().kind == Kind::symbol && now().text == symbol; }
bool Parser::is_word(std::string_view name) const { return now().kind == Kind::name && now().text == name; }

bool Parser::skip(std::string_view symbol) {
  if (!is(symbol)) return false;
  next();
  return true;
}

bool Parser::skip_word(std::string_view name) {
  if (!is_word(name)) return false;
  next();
  return true;
}

void Parser::expect(std::string_view symbol) {
  if (!skip(symbol)) fail(concat("'", symbol, "' expected, ", found(), " found"));
}

void Parser::expect_word(std::string_view name) {
  if (!skip_word(name)) fail(concat("'", name, "' expected, ", found(), " found"));
}

std::string Parser::expect_name(std::string_view what) {
  if (now().kind != Kind::name) fail(std::string(what) + " expected, " + found() + " found");
  return next().text;
}

void Parser::expect_block_end() {
  if (now().kind != Kind::block_end) fail(concat("'%}' expected, ", found(), " found"));
  next();
}

void Parser::fail(const std::string& message) const { throw Failure{message, Code::malformed, now().line}; }

std::string Parser::found() const {
  return now().kind == Kind::end ? "the end of the template" : concat("'", now().text, "'");
}

Body Parser::parse() { return body({}); }

// Statements up to `{% end`, its name and all but its `%}` consumed; no ends: the whole template.
Body Parser::body(std::initializer_list<std::string_view> ends) {
  const Nested nested(*this);
  Body out;
  for (;;) {
    const int line = now().line;
    switch (now().kind) {
      case Kind::data:
        out.push_back({line, Data{next().text}});
        break;
      case Kind::variable_begin:
        next();
        out.push_back({line, Output{tuple()}});
        if (now().kind != Kind::variable_end) fail(concat("'}}' expected, ", found(), " found"));
        next();
        break;
      case Kind::block_begin: {
        next();
        if (now().kind != Kind::name) fail(concat("a statement's name expected, ", found(), " found"));
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end()) return out;
        statement(out);
        expect_block_end();
        break;
      }
      default:
        if (ends.size() == 0) return out;
        fail(concat("the template ends within a block: '", *(ends.end() - 1), "' expected"));
    }
  }
}

// One statement, up to and without its last `%}`.
void Parser::statement(Body& out) {
  const int line = now().line;
  const std::string name = next().text;
  const auto block = [&](std::string_view end) {
    expect_block_end();
    Body inner = body({end});
    next();
    return inner;
  };
  if (name == "if") {
    out.push_back({line, if_block()});
  } else if (name == "for") {
    out.push_back({line, for_block()});
  } else if (name == "set") {
    set_block(out, line);
  } else if (name == "with") {
    out.push_back({line, with_block()});
  } else if (name == "macro") {
    out.push_back({line, MacroBlock{macro(expect_name("the macro's name"))}});
  } else if (name == "call") {
    out.push_back({line, call_block()});
  } else if (name == "filter") {
    auto filter = filter_chain(nullptr, true);
    out.push_back({line, FilterBlock{std::move(filter), block("endfilter")}});
  } else if (name == "generation") {
    out.push_back({line, Scoped{block("endgeneration")}});
  } else if (name == "do") {
    out.push_back({line, Do{tuple()}});
  } else if (name == "print") {
    do out.push_back({line, Output{expression()}});
    while (skip(","));
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) throw Failure{concat("'", name, "' outside a loop"), Code::malformed, line};
    if (name == "break")
      out.push_back({line, Break{}});
    else
      out.push_back({line, Continue{}});
  } else if (std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused)) {
    throw Failure{concat("'", name, "' is not supported: a chat template is one file"), Code::unsupported, line};
  } else {
    throw Failure{concat("unknown statement '", name, "'"), Code::malformed, line};
  }
}

If Parser::if_block() {
  If out;
  for (;;) {
    auto test = tuple(false);
    skip(":");
    expect_block_end();
    auto inner = body({"elif", "else", "endif"});
    out.branches.emplace_back(std::move(test), std::move(inner));
    const Token end = next();
    if (end.text == "elif") continue;
    if (end.text == "else") {
      skip(":");
      expect_block_end();
      out.otherwise = body({"endif"});
      next();
    }
    return out;
  }
}

For Parser::for_block() {
  For out;
  out.target = target(false);
  expect_word("in");
  out.items = tuple(false, "recursive");
  if (skip_word("if")) out.filter = expression();
  out.recursive = skip_word("recursive");
  skip(":");
  expect_block_end();
  ++loops_;
  out.body = body({"else", "endfor"});
  --loops_;
  if (next().text == "else") {
    skip(":");
    expect_block_end();
    out.otherwise = body({"endfor"});
    next();
  }
  return out;
}

void Parser::set_block(Body& out, int line) {
  auto to = target(true);
  if (skip("=")) {
    out.push_back({line, Set{std::move(to), tuple()}});
    return;
  }
  auto filter = filter_chain(nullptr, false);
  expect_block_end();
  auto inner = body({"endset"});
  next();
  out.push_back({line, SetBlock{std::move(to), std::move(filter), std::move(inner)}});
}

With Parser::with_block() {
  With out;
  while (now().kind != Kind::block_end) {
    if (!out.values.empty()) expect(",");
    auto to = target(false);
    expect("=");
    out.values.emplace_back(std::move(to), expression());
  }
  expect_block_end();
  out.body = body({"endwith"});
  next();
  return out;
}

std::unique_ptr<Macro> Parser::macro(std::string name) {
  auto out = std::make_unique<Macro>();
  out->name = std::move(name);
  signature(*out);
  macro_body(*out, "endmacro");
  return out;
}

void Parser::macro_body(Macro& macro, std::string_view end) {
  expect_block_end();
  const int loops_outside = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  macro.body = body({end});
  next();
  macros_.pop_back();
  loops_ = loops_outside;
}

void Parser::signature(Macro& macro) {
  expect("(");
  while (!is(")")) {
    auto parameter = expect_name("a parameter's name");
    if (std::find(macro.parameters.begin(), macro.parameters.end(), parameter) != macro.parameters.end())
      fail(concat("the parameter '", parameter, "' is there twice"));
    macro.parameters.push_back(std::move(parameter));
    if (skip("="))
      macro.defaults.push_back(expression());
    else if (!macro.defaults.empty())
      fail("a parameter without a default after one with a default");
    if (!skip(",")) break;
  }
  expect(")");
}

CallBlock Parser::call_block() {
  CallBlock out;
  out.caller = std::make_unique<Macro>();
  out.caller->name = "caller";
  if (is("(")) signature(*out.caller);
  out.call = expression();
  if (!std::holds_alternative<Call>(out.call->node)) fail("'call' expects a call of a macro");
  macro_body(*out.caller, "endcall");
  return out;
}

// A name, a namespace's attribute where allowed, or a tuple of targets.
Target Parser::target(bool attributes) {
  const Nested nested(*this);
  const int line = now().line;
  Target first = target_item(attributes);
  if (!is(",")) return first;
  Target out;
  out.line = line;
  out.items.push_back(std::move(first));
  while (skip(","))
    if (now().kind == Kind::name ? !is_word("in") : is("(")) out.items.push_back(target_item(attributes));
  return out;
}

Target Parser::target_item(bool attributes) {
  Target out;
  out.line = now().line;
  if (skip("(")) {
    out = target(attributes);
    expect(")");
    return out;
  }
  out.name = expect_name("a name to assign to");
  if (is_constant(out.name)) fail(concat("'", out.name, "' cannot be assigned to"));
  if (attributes && skip(".")) out.attribute = expect_name("an attribute's name");
  return out;
}

}  // namespace fourfold::jinja
