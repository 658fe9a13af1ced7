#include "text/merger.hpp"

#include <algorithm>
#include <bit>

#include "text/utf8.hpp"

namespace fourfold {
namespace {

constexpr std::uint32_t kLast = 0xFFFFFFFF;

// Ascending order of the result is descending order of scores.
std::uint32_t priority_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

bool better(const Merger::Candidate& a, const Merger::Candidate& b) { return a.order < b.order; }
bool worse(const Merger::Candidate& a, const Merger::Candidate& b) { return a.order > b.order; }

// Where the next space mark begins that has something else before it; the text's size if there is none.
std::size_t next_cut(std::string_view text, std::size_t from) {
  while (text.substr(from).starts_with(kSpaceMark)) from += kSpaceMark.size();
  return std::min(text.find(kSpaceMark, from), text.size());
}

bool marks_only_lead(const Vocabulary& vocabulary) {
  if (vocabulary.find_plain(kSpaceMark) < 0) return false;
  for (int id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (kind != TokenKind::normal && kind != TokenKind::unused) continue;
    if (next_cut(vocabulary.text(id), 0) < vocabulary.text(id).size()) return false;
  }
  return true;
}

}  // namespace

Merger::Merger(Vocabulary vocabulary, Rules rules) : vocabulary_(std::move(vocabulary)), rules_(std::move(rules)) {
  cut_before_marks_ = !rules_.bytes && marks_only_lead(vocabulary_);
}

void Merger::encode(std::string_view piece, bool lone_prefix, Scratch& scratch, std::vector<int>& out) const {
  if (rules_.whole_pieces_first) {
    if (const int id = vocabulary_.find_plain(piece); id >= 0) {
      out.push_back(id);
      return;
    }
  }
  while (!piece.empty()) {
    const std::size_t size = cut_before_marks_ ? next_cut(piece, 0) : piece.size();
    encode_part(piece.substr(0, size), lone_prefix, scratch, out);
    piece.remove_prefix(size);
    lone_prefix = false;
  }
}

void Merger::encode_part(std::string_view part, bool lone_prefix, Scratch& scratch, std::vector<int>& out) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.clear();
  scratch.unused.clear();
  start(part, symbols);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<std::int32_t>(i) + 1 : -1;
  }
  if (symbols.size() > 1) merge_all(part, lone_prefix, scratch);
  for (std::int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[i].next)
    emit(part.substr(symbols[i].begin, symbols[i].size), symbols[i].id, scratch, out);
}

void Merger::start(std::string_view part, std::vector<Symbol>& symbols) const {
  auto put = [&](std::size_t begin, std::size_t size, int id) {
    symbols.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size), -1, -1, id});
  };
  symbols.reserve(part.size());
  bool after_unknown = false;
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t size = rules_.bytes ? 1 : first_character(part.substr(at)).length;
    const std::string_view text = part.substr(at, size);
    const int id = vocabulary_.find_plain(text);
    const bool unknown = id < 0 && !rules_.scores && !(rules_.byte_fallback && has_bytes(text));
    if (id >= 0 || rules_.scores) {
      put(at, size, id);
    } else if (!unknown) {
      for (std::size_t i = 0; i < size; ++i)
        put(at + i, 1, vocabulary_.byte_token(static_cast<unsigned char>(text[i])));
    } else if (after_unknown && rules_.fuse_unknown) {
      symbols.back().size += static_cast<std::uint32_t>(size);
    } else if (rules_.unknown) {
      put(at, size, *rules_.unknown);
    }
    after_unknown = unknown && rules_.unknown.has_value();
    at += size;
  }
}

void Merger::propose(std::string_view part, bool lone_prefix, std::int32_t left, Scratch& scratch) const {
  const Symbol& l = scratch.symbols[left];
  if (l.next < 0) return;
  const Symbol& r = scratch.symbols[l.next];
  std::uint32_t priority = 0;
  std::int32_t id = -1;
  if (rules_.scores) {
    id = vocabulary_.find_plain(part.substr(l.begin, l.size + r.size));
    if (id < 0) return;
    priority = priority_of(vocabulary_.score(id));
    const bool prefix = lone_prefix && left == 0 && l.size == kSpaceMark.size();
    if (prefix && part.substr(r.begin).starts_with(kSpaceMark)) priority = kLast;
  } else {
    const Merge* merge = rules_.merges.find(static_cast<std::uint32_t>(l.id), static_cast<std::uint32_t>(r.id));
    if (merge == nullptr) return;
    priority = merge->rank;
    id = merge->id;
  }
  const std::uint64_t order = std::uint64_t{priority} << 32 | static_cast<std::uint32_t>(left);
  scratch.heap.push_back({order, l.size + r.size, id});
}

void Merger::merge_all(std::string_view part, bool lone_prefix, Scratch& scratch) const {
  std::vector<Candidate>& sorted = scratch.sorted;
  std::vector<Candidate>& heap = scratch.heap;
  sorted.clear();
  heap.clear();
  heap.reserve(scratch.symbols.size());
  const auto count = static_cast<std::int32_t>(scratch.symbols.size());
  for (std::int32_t i = 0; i + 1 < count; ++i) propose(part, lone_prefix, i, scratch);
  auto propose_again = [&](std::int32_t left) {
    const std::size_t before = heap.size();
    if (left >= 0) propose(part, lone_prefix, left, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), worse);
  };
  for (std::size_t at = 0;;) {
    if (at == sorted.size()) {
      if (heap.empty()) return;
      sorted.swap(heap);
      heap.clear();
      at = 0;
      if (!std::is_sorted(sorted.begin(), sorted.end(), better)) std::sort(sorted.begin(), sorted.end(), better);
    }
    Candidate best = sorted[at];
    if (!heap.empty() && better(heap.front(), best)) {
      best = heap.front();
      std::pop_heap(heap.begin(), heap.end(), worse);
      heap.pop_back();
    } else {
      ++at;
    }
    if (!apply(best, scratch)) continue;
    const auto left = static_cast<std::int32_t>(best.order & 0xFFFFFFFF);
    propose_again(scratch.symbols[left].previous);
    propose_again(left);
  }
}

// False if an earlier merge took one of the two symbols.
bool Merger::apply(const Candidate& best, Scratch& scratch) const {
  const auto left = static_cast<std::int32_t>(best.order & 0xFFFFFFFF);
  Symbol& l = scratch.symbols[left];
  if (l.size == 0 || l.next < 0) return false;
  Symbol& r = scratch.symbols[l.next];
  if (l.size + r.size != best.size) return false;
  if (rules_.scores && vocabulary_.kind(best.id) == TokenKind::unused) scratch.unused.emplace(best.id, l.size);
  l.size = best.size;
  l.id = best.id;
  l.next = r.next;
  r.size = 0;
  if (l.next >= 0) scratch.symbols[l.next].previous = left;
  return true;
}

void Merger::emit(std::string_view text, int id, const Scratch& scratch, std::vector<int>& out) const {
  if (id < 0) return emit_unknown(text, out);
  if (!rules_.scores || vocabulary_.kind(id) != TokenKind::unused) return out.push_back(id);
  // A token that is not for use falls apart again, into the two that made it, and so on.
  std::vector<std::string_view> waiting{text};
  while (!waiting.empty()) {
    const std::string_view now = waiting.back();
    waiting.pop_back();
    const int known = vocabulary_.find_plain(now);
    const auto made = scratch.unused.find(known);
    if (known >= 0 && vocabulary_.kind(known) != TokenKind::unused) {
      out.push_back(known);
    } else if (made == scratch.unused.end()) {
      emit_unknown(now, out);
    } else {
      waiting.push_back(now.substr(made->second));
      waiting.push_back(now.substr(0, made->second));
    }
  }
}

void Merger::emit_unknown(std::string_view text, std::vector<int>& out) const {
  if (rules_.byte_fallback && has_bytes(text)) {
    for (const char c : text) out.push_back(vocabulary_.byte_token(static_cast<unsigned char>(c)));
  } else if (rules_.unknown && !(rules_.fuse_unknown && !out.empty() && out.back() == *rules_.unknown)) {
    out.push_back(*rules_.unknown);
  }
}

bool Merger::has_bytes(std::string_view text) const {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return vocabulary_.byte_token(static_cast<unsigned char>(c)) >= 0; });
}

}  // namespace fourfold
