#include "text/tokenizer.hpp"

#include <algorithm>
#include <array>

#include "text/tokenizer_parts.hpp"
#include "text/utf8.hpp"

namespace fourfold {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 30;

constexpr std::array<std::string_view, 12> kEndTexts = {
    "<|eot_id|>",    "<|eom_id|>", "<|im_end|>", "<|end|>",         "<|end_of_text|>", "<|endoftext|>",
    "<end_of_turn>", "<eos>",      "</s>",       "<|end_of_turn|>", "<|return|>",      "<|eot|>",
};

bool hidden(TokenKind kind) { return kind == TokenKind::control || kind == TokenKind::unknown; }

// GPT-2's alphabet: the printable bytes of Latin-1 stand for themselves, the others are numbered from U+0100 on.
std::array<int, 324> make_alphabet() {
  std::array<int, 324> byte_of_code;
  byte_of_code.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    byte_of_code[itself ? byte : next++] = byte;
  }
  return byte_of_code;
}

struct Encoder {
  const TokenizerParts& parts;
  bool parse_special;
  std::vector<int>& ids;
  Merger::Scratch scratch{};

  // `text`: what lies between two added tokens, or between one and an end of the text.
  status plain(std::string_view text, bool at_start) {
    std::string normalized(text);
    if (!parts.normalizer.empty()) {
      auto done = parts.normalizer.apply(text);
      if (!done) return done.error();
      normalized = std::move(*done);
    }
    if (parts.added_normalized.empty()) return pieces(std::move(normalized), at_start);
    for (const auto& part : parts.added_normalized.split(normalized, parse_special)) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else
        FOURFOLD_TRY(pieces(std::string(part.text), at_start && part.text.data() == normalized.data()));
    }
    return {};
  }

  status pieces(std::string text, bool at_start) {
    auto cut = parts.pre_tokenizer.apply(std::move(text), at_start);
    if (!cut) return cut.error();
    const std::string_view all = cut->text;
    for (const auto [begin, end] : cut->spans)
      parts.merger.encode(all.substr(begin, end - begin), parts.lone_prefix && !at_start, scratch, ids);
    return {};
  }
};

}  // namespace

std::string bytes_of_alphabet(std::string_view text) {
  static const std::array<int, 324> kByteOfCode = make_alphabet();
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Unit unit = first_character(text.substr(at));
    if (!unit.valid || unit.code >= kByteOfCode.size() || kByteOfCode[unit.code] < 0) return std::string(text);
    out.push_back(static_cast<char>(kByteOfCode[unit.code]));
    at += unit.length;
  }
  return out;
}

void add_known_ends(TokenizerParts& parts) {
  const Vocabulary& vocabulary = parts.vocabulary();
  for (const std::string_view text : kEndTexts)
    if (const int id = vocabulary.find(text); id >= 0 && vocabulary.kind(id) != TokenKind::normal)
      parts.ends.push_back(id);
  if (parts.eos) parts.ends.push_back(*parts.eos);
  std::sort(parts.ends.begin(), parts.ends.end());
  parts.ends.erase(std::unique(parts.ends.begin(), parts.ends.end()), parts.ends.end());
}

result<std::vector<int>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() >= kLongestText)
    return status(Code::invalid_argument, "a text of " + std::to_string(text.size()) +
                                              " bytes is too long to tokenize; at most " +
                                              std::to_string(kLongestText - 1) + " are possible");
  std::vector<int> ids;
  if (options.add_bos.value_or(parts_->adds_before)) ids = parts_->before;
  Encoder encoder{*parts_, options.parse_special, ids};
  for (const auto& part : parts_->added.split(text, options.parse_special)) {
    if (part.id >= 0)
      ids.push_back(part.id);
    else
      FOURFOLD_TRY(encoder.plain(part.text, part.text.data() == text.data()));
  }
  if (parts_->adds_after && options.add_bos.value_or(true))
    ids.insert(ids.end(), parts_->after.begin(), parts_->after.end());
  return ids;
}

std::string Tokenizer::piece(int id, bool render_special) const {
  const Vocabulary& vocabulary = parts_->vocabulary();
  if (!vocabulary.contains(id)) return {};
  const std::string_view text = vocabulary.text(id);
  const TokenKind kind = vocabulary.kind(id);
  if (hidden(kind)) return std::string(render_special ? text : std::string_view{});
  if (kind == TokenKind::byte) {
    if (const int byte = byte_of(text); byte >= 0) return {static_cast<char>(byte)};
  }
  return parts_->mark_is_space ? replace_all(text, kSpaceMark, " ") : std::string(text);
}

std::string Tokenizer::decode(std::span<const int> ids, bool render_special) const {
  std::string out;
  for (const int id : ids) out += piece(id, render_special);
  std::size_t strip = 0;
  while (strip < static_cast<std::size_t>(parts_->strip_spaces) && strip < out.size() && out[strip] == ' ') ++strip;
  return out.substr(strip);
}

int Tokenizer::vocab_size() const { return parts_->vocabulary().size(); }
std::optional<int> Tokenizer::bos() const { return parts_->bos; }
std::optional<int> Tokenizer::eos() const { return parts_->eos; }
std::optional<int> Tokenizer::unknown() const { return parts_->unknown; }
std::optional<int> Tokenizer::padding() const { return parts_->padding; }
bool Tokenizer::adds_bos() const {
  return parts_->adds_before && parts_->bos && !parts_->before.empty() && parts_->before.front() == *parts_->bos;
}
bool Tokenizer::is_end(int id) const { return std::binary_search(parts_->ends.begin(), parts_->ends.end(), id); }
bool Tokenizer::is_control(int id) const {
  return parts_->vocabulary().contains(id) && hidden(parts_->vocabulary().kind(id));
}
std::optional<int> Tokenizer::find(std::string_view text) const {
  const int id = parts_->vocabulary().find(text);
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace fourfold
