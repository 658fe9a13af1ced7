// The parser's state, shared by expressions (parse_expression.cpp) and statements (parse_statement.cpp).
#pragma once

#include <initializer_list>

#include "text/jinja/ast.hpp"
#include "text/jinja/lexer.hpp"

namespace fourfold::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Body parse();

 private:
  // Counts nested constructs; more than kMaxNesting are refused, so that no recursion outgrows the stack.
  class Nested {
   public:
    explicit Nested(Parser& parser);
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is(std::string_view symbol) const;
  bool is_word(std::string_view name) const;
  bool skip(std::string_view symbol);
  bool skip_word(std::string_view name);
  void expect(std::string_view symbol);
  void expect_word(std::string_view name);
  std::string expect_name(std::string_view what);
  void expect_block_end();
  [[noreturn]] void fail(const std::string& message) const;
  std::string found() const;

  // expressions
  ExprPtr expression(bool conditional = true);
  ExprPtr tuple(bool conditional = true, std::string_view end_word = {}, bool parentheses = false);
  bool tuple_ends(std::string_view end_word) const;
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr joined(std::string_view word, Op op, ExprPtr (Parser::*operand)());
  ExprPtr logical_not();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool filters);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr number();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr value);
  ExprPtr subscript(ExprPtr value);
  ExprPtr filtered(ExprPtr value);
  ExprPtr filter_chain(ExprPtr value, bool first_inline);
  ExprPtr test(ExprPtr value);
  CallArgs call_args();
  void call_argument(CallArgs& args);

  // statements
  Body body(std::initializer_list<std::string_view> ends);
  void statement(Body& out);
  If if_block();
  For for_block();
  void set_block(Body& out, int line);
  With with_block();
  std::unique_ptr<Macro> macro(std::string name);
  void macro_body(Macro& macro, std::string_view end);
  void signature(Macro& macro);
  CallBlock call_block();
  Target target(bool attributes);
  Target target_item(bool attributes);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;               // loops around, within the innermost macro
  std::vector<Macro*> macros_;  // being parsed
};

}  // namespace fourfold::jinja
