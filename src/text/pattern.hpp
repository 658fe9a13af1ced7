// Pattern: a regular expression as tokenizer files write them, matched by PCRE2 within limits.
//
// The dialect is Oniguruma's (Ruby): \s, \S and \w are Unicode's, ^ and $ match at lines. Matching uses no stack in
// proportion to the text, and work per match is limited in proportion to it.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

struct Span {  // bytes [begin, end) of a text
  std::uint32_t begin, end;
  friend bool operator==(const Span&, const Span&) = default;
};

class Pattern {
 public:
  // malformed: no regular expression; unsupported: a construct whose meaning here would be another.
  static result<Pattern> compile(std::string_view expression);
  static Pattern literal(std::string_view text);

  // Appends the non-empty matches of text[within], left to right. Bytes that are no UTF-8 match nothing and bound what
  // surrounds them. resource: a limit was reached.
  status find_all(std::string_view text, Span within, std::vector<Span>& out) const;

 private:
  status find_in_run(std::string_view run, std::uint32_t offset, std::vector<Span>& out) const;

  std::string source_;                // the expression, or the literal
  std::shared_ptr<const void> code_;  // pcre2_code; none for a literal
};

}  // namespace fourfold
