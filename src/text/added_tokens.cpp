#include "text/added_tokens.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.hpp"

namespace fourfold {
namespace {

// Unicode's White_Space.
bool is_space(std::uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word(std::uint32_t code) {
  switch (utf8proc_category(static_cast<std::int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// The last character of `text`, which is not empty; not valid if the bytes there are none.
Utf8Unit last_character(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    const Utf8Unit unit = first_character(text.substr(text.size() - length));
    if (unit.valid && unit.length == length) return unit;
  }
  return {.length = 1};
}

bool begins_with_word(std::string_view text) {
  if (text.empty()) return false;
  const Utf8Unit unit = first_character(text);
  return unit.valid && is_word(unit.code);
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  const Utf8Unit unit = last_character(text);
  return unit.valid && is_word(unit.code);
}

std::size_t spaces_at_start(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Unit unit = first_character(text.substr(at));
    if (!unit.valid || !is_space(unit.code)) break;
    at += unit.length;
  }
  return at;
}

std::size_t spaces_at_end(std::string_view text) {
  std::size_t left = text.size();
  while (left > 0) {
    const Utf8Unit unit = last_character(text.substr(0, left));
    if (!unit.valid || !is_space(unit.code)) break;
    left -= unit.length;
  }
  return text.size() - left;
}

}  // namespace

void AddedTokens::add(std::string_view text, AddedToken token) {
  if (text.empty()) return;
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(ends_.size());
      ends_.push_back(-1);
      if (node == 0)
        root_[byte] = next;
      else
        edges_.assign(node, byte, next);
    }
    node = next;
  }
  ends_[node] = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
}

std::uint32_t AddedTokens::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return root_[byte];
  const std::uint32_t* next = edges_.find(node, byte);
  return next != nullptr ? *next : 0;
}

AddedTokens::Match AddedTokens::longest(std::string_view text, bool parse_special) const {
  Match best;
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    node = child(node, static_cast<unsigned char>(text[i]));
    if (node == 0) break;
    const int token = ends_[node];
    if (token >= 0 && (parse_special || !tokens_[token].special)) best = {i + 1, token};
  }
  return best;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool parse_special) const {
  std::vector<Part> parts;
  std::size_t done = 0;  // all before is in parts
  for (std::size_t at = 0; at < text.size();) {
    const Match match = longest(text.substr(at), parse_special);
    if (match.token < 0) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    at += match.length;
    const AddedToken& token = tokens_[match.token];
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(at)))) continue;
    if (token.lstrip) begin -= spaces_at_end(text.substr(done, begin - done));
    if (token.rstrip) at += spaces_at_start(text.substr(at));
    if (begin > done) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({text.substr(begin, at - begin), token.id});
    done = at;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace fourfold
