// AddedTokens: finds tokens that stand in a text as a whole, before anything else looks at it.
//
// A trie over bytes; at each place the longest token that may match wins, then the search goes on behind it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/flat_map.hpp"

namespace fourfold {

struct AddedToken {
  int id = -1;
  bool special = false;      // matches only when special tokens are asked for
  bool single_word = false;  // not next to a word character
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
};

class AddedTokens {
 public:
  struct Part {
    std::string_view text;
    int id;  // -1: plain text
  };

  void add(std::string_view text, AddedToken token);
  bool empty() const { return tokens_.empty(); }

  // The whole of `text` in order, without empty parts of plain text.
  std::vector<Part> split(std::string_view text, bool parse_special) const;

 private:
  struct Match {
    std::size_t length = 0;
    int token = -1;  // into tokens_
  };
  Match longest(std::string_view text, bool parse_special) const;
  std::uint32_t child(std::uint32_t node, unsigned char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<int> ends_{-1};              // per node: the token that ends here, or -1
  std::array<std::uint32_t, 256> root_{};  // children of node 0; 0: none
  PairMap<std::uint32_t> edges_;           // of the other nodes
};

}  // namespace fourfold
