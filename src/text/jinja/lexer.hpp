// Template source to tokens, with the white-space rules that chat templates are written for: a block tag takes the
// newline after it (trim_blocks) and the blanks before it on its line (lstrip_blocks); `-` strips more, `+` nothing.
#pragma once

#include "text/jinja/value.hpp"

namespace fourfold::jinja {

struct Token {
  enum class Kind {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    floating,
    symbol,
    end
  };

  Kind kind;
  int line;
  std::string text;  // data, name, string's content, number's digits, or symbol
};

// All tokens, the last one `end`. Throws Failure with its line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace fourfold::jinja
