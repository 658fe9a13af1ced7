// Tokenizers from GGUF metadata: model "gpt2" is byte-level BPE, "llama" is SentencePiece's score BPE.
#include "formats/message.hpp"
#include "formats/metadata.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_parts.hpp"

namespace fourfold {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kMerges = "tokenizer.ggml.merges";

struct SpecialIds {
  std::optional<int> bos, eos, unknown, padding;
  std::vector<int> other_ends;  // of a turn, of a message
};

status malformed(const std::string& message) { return {Code::malformed, message}; }

status read_id(const Metadata& metadata, const char* key, std::size_t count, std::optional<int>& out) {
  if (!metadata.has(key)) return {};
  const auto id = metadata.get_int(key);
  if (!id) return id.error();
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= count)
    return malformed(std::string("key '") + key + "' is " + std::to_string(*id) + "; expected 0 to " +
                     std::to_string(count) + " - 1");
  out = static_cast<int>(*id);
  return {};
}

result<SpecialIds> read_special_ids(const Metadata& metadata, std::size_t count) {
  SpecialIds ids;
  FOURFOLD_TRY(read_id(metadata, "tokenizer.ggml.bos_token_id", count, ids.bos));
  FOURFOLD_TRY(read_id(metadata, "tokenizer.ggml.eos_token_id", count, ids.eos));
  FOURFOLD_TRY(read_id(metadata, "tokenizer.ggml.unknown_token_id", count, ids.unknown));
  FOURFOLD_TRY(read_id(metadata, "tokenizer.ggml.padding_token_id", count, ids.padding));
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    std::optional<int> end;
    FOURFOLD_TRY(read_id(metadata, key, count, end));
    if (end) ids.other_ends.push_back(*end);
  }
  return ids;
}

result<std::vector<TokenKind>> read_kinds(const Metadata& metadata, std::span<const std::string_view> tokens,
                                          const SpecialIds& special, bool byte_level) {
  std::vector<TokenKind> kinds(tokens.size(), TokenKind::normal);
  if (!metadata.has(kTypes)) {
    for (std::size_t i = 0; i < tokens.size() && !byte_level; ++i)
      if (byte_of(tokens[i]) >= 0) kinds[i] = TokenKind::byte;
    for (const auto& id : {special.bos, special.eos, special.padding})
      if (id) kinds[*id] = TokenKind::control;
    if (special.unknown && !byte_level) kinds[*special.unknown] = TokenKind::unknown;
    return kinds;
  }
  const auto types = metadata.get_ints(kTypes);
  if (!types) return types.error();
  if (types->size() != tokens.size())
    return malformed(std::string("key '") + kTypes + "' has " + std::to_string(types->size()) +
                     " values; expected one for each of the " + std::to_string(tokens.size()) + " tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t type = (*types)[i];
    if (type < 0 || type > 6)
      return malformed(std::string("key '") + kTypes + "' has the value " + std::to_string(type) + " for token " +
                       std::to_string(i) + "; expected 0 to 6");
    kinds[i] = type == 0 ? TokenKind::unused : static_cast<TokenKind>(type);
  }
  return kinds;
}

std::size_t bytes_in(std::span<const std::string_view> tokens) {
  std::size_t bytes = 0;
  for (const std::string_view token : tokens) bytes += token.size();
  return bytes;
}

result<Merger> byte_level_merger(const Metadata& metadata, std::span<const std::string_view> tokens,
                                 std::span<const TokenKind> kinds, bool whole_pieces_first) {
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), bytes_in(tokens));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    vocabulary.add(kinds[i] == TokenKind::normal ? bytes_of_alphabet(tokens[i]) : std::string(tokens[i]), kinds[i]);
  vocabulary.index();

  const auto merges = metadata.get_strings(kMerges);
  if (!merges) return merges.error();
  Merger::Rules rules;
  rules.bytes = true;
  rules.whole_pieces_first = whole_pieces_first;
  rules.merges.reserve(merges->size());
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    const std::size_t space = std::min(merge.find(' ', 1), merge.size());
    const std::string left = bytes_of_alphabet(merge.substr(0, space));
    const std::string right = bytes_of_alphabet(merge.substr(std::min(space + 1, merge.size())));
    const int l = vocabulary.find_plain(left), r = vocabulary.find_plain(right),
              made = vocabulary.find_plain(left + right);
    if (l < 0 || r < 0 || made < 0)
      return malformed(std::string("key '") + kMerges + "' has the merge " + quote(merge) + " at place " +
                       std::to_string(rank) + "; expected two tokens that together are a token");
    rules.merges.assign(static_cast<std::uint32_t>(l), static_cast<std::uint32_t>(r),
                        {static_cast<std::uint32_t>(rank), made});
  }
  return Merger(std::move(vocabulary), std::move(rules));
}

result<Merger> score_merger(const Metadata& metadata, std::span<const std::string_view> tokens,
                            std::span<const TokenKind> kinds, std::optional<int> unknown) {
  const auto scores = metadata.get_floats(kScores);
  if (!scores) return scores.error();
  if (scores->size() != tokens.size())
    return malformed(std::string("key '") + kScores + "' has " + std::to_string(scores->size()) +
                     " values; expected one for each of the " + std::to_string(tokens.size()) + " tokens");
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), bytes_in(tokens));
  for (std::size_t i = 0; i < tokens.size(); ++i) vocabulary.add(tokens[i], kinds[i], static_cast<float>((*scores)[i]));
  vocabulary.index();
  Merger::Rules rules;
  rules.scores = true;
  rules.byte_fallback = true;
  rules.fuse_unknown = true;
  rules.unknown = unknown;
  return Merger(std::move(vocabulary), std::move(rules));
}

// Control, unknown and user-defined tokens are found in the text itself.
void find_in_text(TokenizerParts& parts) {
  const Vocabulary& vocabulary = parts.vocabulary();
  for (int id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (kind != TokenKind::control && kind != TokenKind::unknown && kind != TokenKind::user_defined) continue;
    const std::string_view text = vocabulary.text(id);
    const bool special = kind != TokenKind::user_defined;
    parts.added.add(parts.mark_is_space && !special ? replace_all(text, kSpaceMark, " ") : std::string(text),
                    {.id = id, .special = special});
  }
}

status set_around(const Metadata& metadata, bool add_bos, TokenizerParts& parts) {
  const auto bos = metadata.get_bool("tokenizer.ggml.add_bos_token", add_bos && parts.bos.has_value());
  if (!bos) return bos.error();
  const auto eos = metadata.get_bool("tokenizer.ggml.add_eos_token", false);
  if (!eos) return eos.error();
  if ((*bos && !parts.bos) || (*eos && !parts.eos))
    return malformed(std::string("key 'tokenizer.ggml.add_") + (*bos && !parts.bos ? "bos" : "eos") +
                     "_token' is true, but the file names no such token");
  if (parts.bos) parts.before = {*parts.bos};
  if (parts.eos) parts.after = {*parts.eos};
  parts.adds_before = *bos;
  parts.adds_after = *eos;
  return {};
}

result<TokenizerParts> byte_level(const Metadata& metadata, std::span<const std::string_view> tokens,
                                  std::span<const TokenKind> kinds) {
  const auto pre = metadata.get_string("tokenizer.ggml.pre");
  if (!pre) return pre.error();
  auto rules = named_pre_tokenizer(*pre);
  if (!rules) return status(rules.error().code(), "key 'tokenizer.ggml.pre': " + rules.error().message());
  auto merger = byte_level_merger(metadata, tokens, kinds, rules->whole_pieces_first);
  if (!merger) return merger.error();
  TokenizerParts parts(std::move(*merger));
  parts.normalizer = std::move(rules->normalizer);
  parts.pre_tokenizer = std::move(rules->pre_tokenizer);
  return parts;
}

result<TokenizerParts> sentence_piece(const Metadata& metadata, std::span<const std::string_view> tokens,
                                      std::span<const TokenKind> kinds, std::optional<int> unknown) {
  if (const MetaValue* map = metadata.find("tokenizer.ggml.precompiled_charsmap"); map != nullptr)
    return status(Code::unsupported, "key 'tokenizer.ggml.precompiled_charsmap' is " + std::string(type_of(*map)) +
                                         "; only vocabularies without a character map are supported");
  const auto squeeze = metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  if (!squeeze) return squeeze.error();
  if (*squeeze)
    return status(Code::unsupported, "key 'tokenizer.ggml.remove_extra_whitespaces' is true; only false is supported");
  const auto prefix = metadata.get_bool("tokenizer.ggml.add_space_prefix", true);
  if (!prefix) return prefix.error();
  auto merger = score_merger(metadata, tokens, kinds, unknown);
  if (!merger) return merger.error();
  TokenizerParts parts(std::move(*merger));
  if (*prefix) parts.normalizer.add(Normalizer::Prepend{std::string(kSpaceMark)});
  parts.normalizer.add(Normalizer::Replace{Pattern::literal(" "), std::string(kSpaceMark)});
  parts.lone_prefix = *prefix;
  parts.mark_is_space = true;
  parts.strip_spaces = *prefix ? 1 : 0;
  return parts;
}

}  // namespace

result<Tokenizer> Tokenizer::from_gguf(const Metadata& metadata) {
  const auto model = metadata.get_string("tokenizer.ggml.model");
  if (!model) return model.error();
  if (*model != "gpt2" && *model != "llama")
    return status(Code::unsupported, "key 'tokenizer.ggml.model' is " + quote(*model) + "; supported are gpt2, llama");
  const auto tokens = metadata.get_strings(kTokens);
  if (!tokens) return tokens.error();
  if (tokens->empty() || tokens->size() > 0x7FFFFFFF || bytes_in(*tokens) > 0x7FFFFFFF)
    return malformed(std::string("key '") + kTokens + "' has " + std::to_string(tokens->size()) + " strings of " +
                     std::to_string(bytes_in(*tokens)) +
                     " bytes in all; expected at least one, and less than 2^31 of each");
  const auto special = read_special_ids(metadata, tokens->size());
  if (!special) return special.error();
  const auto kinds = read_kinds(metadata, *tokens, *special, *model == "gpt2");
  if (!kinds) return kinds.error();
  auto parts = *model == "gpt2" ? byte_level(metadata, *tokens, *kinds)
                                : sentence_piece(metadata, *tokens, *kinds, special->unknown);
  if (!parts) return parts.error();
  parts->bos = special->bos;
  parts->eos = special->eos;
  parts->unknown = special->unknown;
  parts->padding = special->padding;
  parts->ends = special->other_ends;
  add_known_ends(*parts);
  find_in_text(*parts);
  const bool add_bos = *model == "llama" || metadata.get_string("tokenizer.ggml.pre", "").value() == "llama-bpe";
  FOURFOLD_TRY(set_around(metadata, add_bos, *parts));
  return Tokenizer(std::make_shared<const TokenizerParts>(std::move(*parts)));
}

}  // namespace fourfold
