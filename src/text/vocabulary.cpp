#include "text/vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fourfold {
namespace {

// Multiply and fold, eight bytes at a time.
std::uint64_t hash_of(std::string_view text) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  std::uint64_t h = text.size() * kOdd;
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    h = (h ^ word) * kOdd;
    h ^= h >> 32;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, at, left);
  h = (h ^ word) * kOdd;
  h = (h ^ h >> 29) * kOdd;
  return h ^ h >> 32;
}

bool plain(TokenKind kind) {
  return kind == TokenKind::normal || kind == TokenKind::user_defined || kind == TokenKind::unused;
}

}  // namespace

int byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = digit(text[3]);
  const int low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  bytes_.reserve(bytes);
  begins_.reserve(tokens + 1);
  kinds_.reserve(tokens);
  scores_.reserve(tokens);
}

void Vocabulary::add(std::string_view text, TokenKind kind, float score) {
  bytes_ += text;
  begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  kinds_.push_back(kind);
  scores_.push_back(score);
  longest_ = std::max(longest_, text.size());
}

void Vocabulary::index() {
  slots_.assign(std::bit_ceil(kinds_.size() * 2 + 2), Slot{});
  byte_tokens_.fill(-1);
  for (int id = 0; id < size(); ++id)
    if (plain(kinds_[id])) insert(id);
  for (int id = 0; id < size(); ++id) {
    if (!plain(kinds_[id])) insert(id);
    if (kinds_[id] == TokenKind::byte)
      if (const int byte = byte_of(text(id)); byte >= 0 && byte_tokens_[byte] < 0) byte_tokens_[byte] = id;
  }
}

void Vocabulary::insert(int id) {
  if (text(id).empty()) return;
  const std::uint64_t hash = hash_of(text(id));
  Slot& slot = slots_[place(text(id), hash)];
  if (slot.id < 0) slot = {static_cast<std::uint32_t>(hash >> 32), id};
}

std::size_t Vocabulary::place(std::string_view wanted, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].tag != tag || text(slots_[at].id) != wanted)) at = (at + 1) & mask;
  return at;
}

int Vocabulary::find(std::string_view wanted) const {
  if (wanted.size() > longest_ || slots_.empty()) return -1;
  return slots_[place(wanted, hash_of(wanted))].id;
}

int Vocabulary::find_plain(std::string_view wanted) const {
  const int id = find(wanted);
  return id >= 0 && plain(kinds_[id]) ? id : -1;
}

}  // namespace fourfold
