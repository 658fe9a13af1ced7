// Normalizer: what happens to a text before it is cut into pieces.
//
// Steps work on whole texts and return new ones, each in linear time (sorting a run of combining marks: n log n).
#pragma once

#include <fourfold/status.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.hpp"

namespace fourfold {

class Normalizer {
 public:
  struct Prepend {  // in front of a text that is not empty
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string with;
  };
  struct Unicode {  // Unicode Standard Annex 15: NFC, NFD, NFKC, NFKD; bytes that are no UTF-8 stay as they are
    bool compose, compatibility;
  };
  using Step = std::variant<Prepend, Replace, Unicode>;

  template <class Kind>
  void add(Kind step) {
    steps_.emplace_back(std::move(step));
  }
  bool empty() const { return steps_.empty(); }

  // resource: a pattern reached a limit.
  result<std::string> apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace fourfold
