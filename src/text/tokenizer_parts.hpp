// TokenizerParts: what a tokenizer is made of; tokenizer_gguf.cpp and tokenizer_json.cpp each fill one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/merger.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"

namespace fourfold {

struct TokenizerParts {
  explicit TokenizerParts(Merger m) : merger(std::move(m)) {}

  AddedTokens added;             // matched in the text as it is
  Normalizer normalizer;         // of what lies between them
  AddedTokens added_normalized;  // matched in the normalised text
  PreTokenizer pre_tokenizer;
  Merger merger;                                 // holds the vocabulary
  bool lone_prefix = false;                      // Merger::encode's, behind a token found in the text
  bool mark_is_space = false;                    // U+2581 in a token stands for a space
  int strip_spaces = 0;                          // decoding drops so many from the start
  std::vector<int> before, after;                // ids that go around a text
  bool adds_before = false, adds_after = false;  // by default
  std::optional<int> bos, eos, unknown, padding;
  std::vector<int> ends;  // ascending

  const Vocabulary& vocabulary() const { return merger.vocabulary(); }
};

// The ids of tokens that end a generation because of their well-known text, though no field of a file names them.
void add_known_ends(TokenizerParts& parts);

// The bytes of a token written in GPT-2's alphabet, one character a byte; the text itself if it is not in the alphabet.
std::string bytes_of_alphabet(std::string_view text);

}  // namespace fourfold
