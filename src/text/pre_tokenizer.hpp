// PreTokenizer: cuts a text into pieces that merges never cross.
//
// Each step looks at every piece so far and cuts it further, or rewrites it (a prefix, a space's stand-in).
#pragma once

#include <fourfold/status.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/normalizer.hpp"
#include "text/pattern.hpp"

namespace fourfold {

// The text and its pieces, in order; bytes outside of all pieces are dropped.
struct Pieces {
  std::string text;
  std::vector<Span> spans;
};

class PreTokenizer {
 public:
  enum class Behavior { isolated, removed, contiguous, merged_with_previous, merged_with_next };
  struct Split {
    Pattern pattern;
    Behavior behavior = Behavior::isolated;
    bool invert = false;  // the pattern describes pieces, not what separates them
  };
  struct Rewrite {
    std::string from, to;     // `from` may be empty: nothing is replaced
    std::string prefix;       // in front of a piece that does not begin with it
    bool first_only = false;  // only at the start of the whole text
  };
  using Step = std::variant<Split, Rewrite>;

  template <class Kind>
  void add(Kind step) {
    steps_.emplace_back(std::move(step));
  }

  // `at_start`: the text begins where the user's text does. resource: a pattern reached a limit.
  result<Pieces> apply(std::string text, bool at_start) const;

 private:
  std::vector<Step> steps_;
};

// What a name in `tokenizer.ggml.pre` stands for.
struct PreTokenizerRules {
  PreTokenizer pre_tokenizer;
  Normalizer normalizer;
  bool whole_pieces_first = false;  // a piece that is a token is not merged
};

// unsupported: no such name; the message lists the known ones.
result<PreTokenizerRules> named_pre_tokenizer(std::string_view name);

// The pattern of GPT-2, which byte-level pre-tokenizers use unless they say otherwise.
extern const std::string_view kGpt2Pattern;

}  // namespace fourfold
