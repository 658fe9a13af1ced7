#include "text/dry.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "text/tokenizer.hpp"

namespace fourfold {
namespace {

constexpr std::size_t kMostText = 40, kMostTail = 20;  // of a breaker: bytes, tokens behind its first

// The largest exponent whose power of `base` is a float; 0: any.
float most_exponent(float base) {
  constexpr float kLargestLog = 88.7228391f;
  return base > 1.000001f ? kLargestLog / std::log(base) : 0;
}

}  // namespace

DryBreakers dry_breakers(const Tokenizer& tokenizer, std::span<const std::string> breakers) {
  DryBreakers found;
  for (int id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece(id, true);
    for (const std::string& whole : breakers) {
      const std::string text = whole.substr(0, kMostText);
      if (text.empty() || text == "none") continue;
      if (piece.find(text) != std::string::npos) {
        found.emplace(id, std::vector<int>{});
        continue;
      }
      for (std::size_t n = std::min(piece.size(), text.size() - 1); n > 0; --n) {
        if (!piece.ends_with(std::string_view(text).substr(0, n))) continue;
        auto tail = tokenizer.encode(text.substr(n), {false, false});
        if (!tail.ok()) continue;
        tail->resize(std::min(tail->size(), kMostTail));
        found.emplace(id, std::move(tail).value());
      }
    }
  }
  return found;
}

Dry::Dry(const SamplingOptions& options, DryBreakers breakers)
    : multiplier_(options.dry_multiplier),
      base_(options.dry_base),
      allowed_(options.dry_allowed_length),
      last_n_(options.dry_penalty_last_n),
      breakers_(std::move(breakers)) {
  constexpr std::size_t kReserved = 1 << 16;
  if (!on()) return;
  tokens_.reserve(kReserved);
  match_.reserve(kReserved);
}

void Dry::accept(int id) {
  if (on()) tokens_.push_back(id);
}

// Tokens since the last breaker, n when there is none: no repetition counts for more.
int Dry::longest_repeatable(int n) const {
  const int* end = tokens_.data() + tokens_.size();
  for (int i = 0; i < n; ++i) {
    int longest = -1;
    const auto [begin, last] = breakers_.equal_range(end[-1 - i]);
    for (auto it = begin; it != last; ++it) {
      const auto length = static_cast<int>(it->second.size());
      if (length > longest && length <= i && std::equal(it->second.begin(), it->second.end(), end - i))
        longest = length;
    }
    if (longest >= 0) return i - longest;
  }
  return n;
}

void Dry::penalise(std::span<float> logits) {
  const auto size = static_cast<int>(tokens_.size());
  const int n = last_n_ < 0 ? size : std::min(last_n_, size);
  if (n <= allowed_) return;
  const int limit = longest_repeatable(n);
  if (limit < allowed_) return;
  const auto token = [&](int back) { return tokens_[static_cast<std::size_t>(size - 1 - back)]; };
  // Z algorithm (Gusfield 1997, section 1.3) over the tokens from the newest back.
  match_.assign(static_cast<std::size_t>(n), 0);
  for (int i = 1, left = 0, right = 0; i < n; ++i) {
    int& length = match_[static_cast<std::size_t>(i)];
    if (i < right) length = std::min(right - i, match_[static_cast<std::size_t>(i - left)]);
    while (i + length < n && token(length) == token(i + length)) ++length;
    if (i + length > right) left = i, right = i + length;
  }
  std::map<int, int> longest;  // by the token that would prolong the repetition
  for (int i = 1; i < n; ++i) {
    const int length = std::min(match_[static_cast<std::size_t>(i)], limit);
    if (length < allowed_) continue;
    int& most = longest[token(i - 1)];
    most = std::max(most, length);
  }
  const float most = most_exponent(base_);
  for (const auto& [id, length] : longest) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    float exponent = static_cast<float>(length - allowed_);
    if (most > 0) exponent = std::min(exponent, std::floor(most));
    logits[static_cast<std::size_t>(id)] -= multiplier_ * std::pow(base_, exponent);
  }
}

}  // namespace fourfold
