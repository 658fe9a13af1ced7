// Vocabulary: the tokens of a model, in the one form that every source of tokenizers fills.
//
// All texts lie in one block of bytes; a flat table maps a text to its id. Byte-level vocabularies hold the bytes a
// token stands for, SentencePiece ones the text as the file has it (a space is U+2581). Building it is bound by the
// cache misses of the table: one per token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

enum class TokenKind : std::uint8_t {  // the numbers GGUF stores
  normal = 1,
  unknown = 2,
  control = 3,       // matches in text only when asked
  user_defined = 4,  // always matches in text
  unused = 5,        // never comes out of text
  byte = 6,          // "<0xHH>": one byte
};

class Vocabulary {
 public:
  void reserve(std::size_t tokens, std::size_t bytes);
  void add(std::string_view text, TokenKind kind, float score = 0);  // its id is the count so far
  void index();                                                      // after the last add: makes lookups work

  int size() const { return static_cast<int>(kinds_.size()); }
  bool contains(std::int64_t id) const { return id >= 0 && id < size(); }
  std::string_view text(int id) const {
    return std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id]);
  }
  TokenKind kind(int id) const { return kinds_[id]; }
  float score(int id) const { return scores_[id]; }

  // Lookups give an id or -1. Where two tokens have one text, one that text can produce is preferred, then the first.
  int find(std::string_view text) const;
  int find_plain(std::string_view text) const;  // only normal, user-defined and unused tokens
  int byte_token(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::int32_t id = -1;
  };

  void insert(int id);
  std::size_t place(std::string_view text, std::uint64_t hash) const;

  std::string bytes_;
  std::vector<std::uint32_t> begins_{0};
  std::vector<TokenKind> kinds_;
  std::vector<float> scores_;
  std::vector<Slot> slots_;
  std::size_t longest_ = 0;  // bytes of the longest text
  std::array<int, 256> byte_tokens_{};
};

// The byte that a text of the form "<0xHH>" names, or -1.
int byte_of(std::string_view text);

}  // namespace fourfold
