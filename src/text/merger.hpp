// Merger: byte-pair encoding of one piece of text.
//
// Symbols form a linked list over the piece. Possible merges of neighbours wait, best first, in a sorted array that is
// read once, and new ones in a heap that becomes the next sorted array: n log n steps for n symbols, near n for runs of
// one character, no recursion. What a merge has made stale is skipped. The cache misses of the merge table bind.
// The best merge is the one of lowest rank (Sennrich et al. 2016, as Hugging Face tokenizers do it) or the one that
// makes the token of highest score (Kudo and Richardson 2018, SentencePiece's BPE); then the leftmost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/flat_map.hpp"
#include "text/vocabulary.hpp"

namespace fourfold {

struct Merge {
  std::uint32_t rank;
  std::int32_t id;  // of the token that it makes
};

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581 stands for a space in SentencePiece

class Merger {
 public:
  struct Rules {
    PairMap<Merge> merges;            // (left id, right id); unused with scores
    bool scores = false;              // neighbours merge if the vocabulary has their text, the highest score first
    bool bytes = false;               // symbols begin as bytes; otherwise as characters
    bool byte_fallback = false;       // a character without a token becomes "<0xHH>" tokens
    bool whole_pieces_first = false;  // a piece that is a token is not merged
    bool fuse_unknown = false;        // neighbouring unknown characters become one unknown token
    std::optional<int> unknown;       // without it, characters that no token can stand for give no token
  };

  Merger(Vocabulary vocabulary, Rules rules);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Buffers that one caller reuses from piece to piece.
  struct Symbol {
    std::uint32_t begin, size;  // in the piece; size 0: merged away
    std::int32_t previous, next;
    std::int32_t id;  // -1: no token has this text
  };
  struct Candidate {
    std::uint64_t order;  // priority, then the left symbol; the lowest is the best
    std::uint32_t size;   // of both symbols; another one now: a merge has come before
    std::int32_t id;
  };
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<Candidate> sorted, heap;
    std::unordered_map<int, std::uint32_t> unused;  // tokens of kind unused that a merge made: bytes of the left part
  };

  // Appends the ids of `piece`, which is shorter than 2^31 bytes. `lone_prefix`: the space mark at its start was put
  // there behind a special token; it joins a mark that follows only when nothing else does (as Hugging Face's order
  // of merges, which has runs of marks last, would do it whatever their scores).
  void encode(std::string_view piece, bool lone_prefix, Scratch& scratch, std::vector<int>& out) const;

 private:
  void encode_part(std::string_view part, bool lone_prefix, Scratch& scratch, std::vector<int>& out) const;
  void start(std::string_view part, std::vector<Symbol>& symbols) const;
  void propose(std::string_view part, bool lone_prefix, std::int32_t left, Scratch& scratch) const;
  void merge_all(std::string_view part, bool lone_prefix, Scratch& scratch) const;
  bool apply(const Candidate& best, Scratch& scratch) const;
  void emit(std::string_view text, int id, const Scratch& scratch, std::vector<int>& out) const;
  void emit_unknown(std::string_view text, std::vector<int>& out) const;
  bool has_bytes(std::string_view text) const;

  Vocabulary vocabulary_;
  Rules rules_;
  bool cut_before_marks_ = false;  // no token has a space mark behind another character
};

}  // namespace fourfold
