// Tokenizers from Hugging Face's tokenizer.json, format version 1.0; its models of type BPE.
#include <algorithm>

#include "formats/message.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_file.hpp"
#include "text/tokenizer_parts.hpp"
#include "text/tokenizer_steps.hpp"

namespace fourfold {
namespace {

using Json = nlohmann::json;

status malformed(const std::string& message) { return {Code::malformed, message}; }

struct AddedEntry {
  std::string content;
  AddedToken token;
  bool normalized = false;
};

result<std::vector<AddedEntry>> read_added(const Json& list) {
  std::vector<AddedEntry> entries;
  if (list.is_null()) return entries;
  if (!list.is_array()) return malformed("'added_tokens' is not an array");
  for (const Json& item : list) {
    AddedEntry entry;
    FOURFOLD_TRY(read_text(item, "content", entry.content));
    FOURFOLD_TRY(read_flag(item, "special", entry.token.special));
    FOURFOLD_TRY(read_flag(item, "single_word", entry.token.single_word));
    FOURFOLD_TRY(read_flag(item, "lstrip", entry.token.lstrip));
    FOURFOLD_TRY(read_flag(item, "rstrip", entry.token.rstrip));
    FOURFOLD_TRY(read_flag(item, "normalized", entry.normalized));
    const Json& id = json_member(item, "id");
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > 0x7FFFFFFF)
      return malformed("added token " + quote(entry.content) + " has no id from 0 to 2^31 - 1");
    entry.token.id = id.get<int>();
    entries.push_back(std::move(entry));
  }
  return entries;
}

// One token per id; ids that the file leaves out become unused tokens without a text.
struct Slot {
  std::string_view text;
  TokenKind kind = TokenKind::unused;
  bool taken = false;
  bool added = false;
};

status take(Slot& slot, std::int64_t id, std::string_view text, TokenKind kind, bool added) {
  if (slot.taken && slot.text != text)
    return malformed("the id " + std::to_string(id) + " stands for " + quote(slot.text) + " and for " + quote(text));
  slot = {text, kind, true, added};
  return {};
}

result<std::vector<Slot>> slots_of(const TokenizerFile& file, const std::vector<AddedEntry>& added,
                                   bool byte_fallback) {
  std::int64_t largest = -1;
  for (const auto& [text, id] : file.vocabulary) largest = std::max(largest, id);
  for (const AddedEntry& entry : added) largest = std::max<std::int64_t>(largest, entry.token.id);
  const std::size_t count = file.vocabulary.size() + added.size();
  if (count == 0) return malformed("there are no tokens");
  if (static_cast<std::uint64_t>(largest) > 4 * count + 4096)
    return malformed("the largest id is " + std::to_string(largest) + ", but there are only " + std::to_string(count) +
                     " tokens");
  std::vector<Slot> slots(static_cast<std::size_t>(largest) + 1);
  for (const auto& [text, id] : file.vocabulary) {
    const bool byte = byte_fallback && byte_of(text) >= 0;
    FOURFOLD_TRY(take(slots[id], id, text, byte ? TokenKind::byte : TokenKind::normal, false));
  }
  for (const AddedEntry& entry : added)
    FOURFOLD_TRY(take(slots[entry.token.id], entry.token.id, entry.content,
                      entry.token.special ? TokenKind::control : TokenKind::user_defined, true));
  return slots;
}

result<Vocabulary> vocabulary_of(const std::vector<Slot>& slots, bool byte_level) {
  Vocabulary vocabulary;
  vocabulary.reserve(slots.size(), slots.size() * 8);
  for (const Slot& slot : slots)
    vocabulary.add(byte_level && !slot.added ? bytes_of_alphabet(slot.text) : std::string(slot.text), slot.kind);
  vocabulary.index();
  for (int id = 0; id < vocabulary.size(); ++id) {
    if (slots[id].text.empty()) continue;
    const int first = vocabulary.find(vocabulary.text(id));
    if (first != id && slots[first].text == slots[id].text)
      return malformed("the token " + quote(slots[id].text) + " has the ids " + std::to_string(first) + " and " +
                       std::to_string(id));
  }
  return vocabulary;
}

status read_merges(const TokenizerFile& file, const Vocabulary& vocabulary, Merger::Rules& rules) {
  rules.merges.reserve(file.merges.size());
  auto bytes = [&](const std::string& text) { return rules.bytes ? bytes_of_alphabet(text) : text; };
  for (std::size_t rank = 0; rank < file.merges.size(); ++rank) {
    const auto& [left, right] = file.merges[rank];
    const int l = vocabulary.find(bytes(left)), r = vocabulary.find(bytes(right)),
              made = vocabulary.find(bytes(left + right));
    if (l < 0 || r < 0 || made < 0)
      return malformed("merge " + std::to_string(rank) + ", " + quote(left) + " and " + quote(right) +
                       "; expected two tokens that together are a token");
    rules.merges.assign(static_cast<std::uint32_t>(l), static_cast<std::uint32_t>(r),
                        {static_cast<std::uint32_t>(rank), made});
  }
  return {};
}

// What a BPE model says beside its vocabulary and merges.
result<Merger::Rules> read_rules(const Json& model) {
  std::string type = "BPE", prefix, suffix;
  FOURFOLD_TRY(read_text(model, "type", type));
  if (type != "BPE") return status(Code::unsupported, "model " + quote(type) + " is not supported; supported is BPE");
  FOURFOLD_TRY(read_text(model, "continuing_subword_prefix", prefix));
  FOURFOLD_TRY(read_text(model, "end_of_word_suffix", suffix));
  if (!prefix.empty() || !suffix.empty())
    return status(Code::unsupported, "continuing_subword_prefix and end_of_word_suffix are not supported");
  const Json& dropout = json_member(model, "dropout");
  if (!dropout.is_null() && dropout != Json(0.0))
    return status(Code::unsupported, "dropout is not supported; expected null or 0");
  Merger::Rules rules;
  FOURFOLD_TRY(read_flag(model, "byte_fallback", rules.byte_fallback));
  FOURFOLD_TRY(read_flag(model, "ignore_merges", rules.whole_pieces_first));
  FOURFOLD_TRY(read_flag(model, "fuse_unk", rules.fuse_unknown));
  return rules;
}

result<Merger> read_model(const TokenizerFile& file, const Json& model, const std::vector<AddedEntry>& added,
                          bool byte_level) {
  auto rules = read_rules(model);
  if (!rules) return rules.error();
  rules->bytes = byte_level;
  const auto slots = slots_of(file, added, rules->byte_fallback);
  if (!slots) return slots.error();
  auto vocabulary = vocabulary_of(*slots, byte_level);
  if (!vocabulary) return vocabulary.error();
  std::string unknown;
  FOURFOLD_TRY(read_text(model, "unk_token", unknown));
  if (!unknown.empty()) {
    const int id = vocabulary->find(unknown);
    if (id < 0) return malformed("the unk_token " + quote(unknown) + " is no token");
    rules->unknown = id;
  }
  FOURFOLD_TRY(read_merges(file, *vocabulary, *rules));
  return Merger(std::move(*vocabulary), std::move(*rules));
}

status find_in_text(const std::vector<AddedEntry>& added, TokenizerParts& parts) {
  for (const AddedEntry& entry : added) {
    if (!entry.normalized) {
      parts.added.add(entry.content, entry.token);
      continue;
    }
    const auto text = parts.normalizer.apply(entry.content);
    if (!text) return text.error();
    parts.added_normalized.add(*text, entry.token);
  }
  return {};
}

// tokenizer_config.json names a token by its text, or by an object that holds it.
status read_special(const Json& config, const char* name, const Vocabulary& vocabulary, std::optional<int>& out) {
  const Json& value = json_member(config, name);
  std::string text;
  FOURFOLD_TRY(value.is_object() ? read_text(value, "content", text) : read_text(config, name, text));
  if (text.empty()) return {};
  const int id = vocabulary.find(text);
  if (id < 0) return {Code::malformed, std::string(name) + " " + quote(text) + " is no token"};
  out = id;
  return {};
}

status read_config(std::string_view text, TokenizerParts& parts) {
  parts.adds_before = !parts.before.empty();
  parts.adds_after = !parts.after.empty();
  if (!parts.before.empty()) parts.bos = parts.before.front();
  if (text.empty()) return {};
  const auto file = read_tokenizer_file(text);
  if (!file) return file.error();
  const Json& config = file->tree;
  FOURFOLD_TRY(read_special(config, "bos_token", parts.vocabulary(), parts.bos));
  FOURFOLD_TRY(read_special(config, "eos_token", parts.vocabulary(), parts.eos));
  FOURFOLD_TRY(read_special(config, "unk_token", parts.vocabulary(), parts.unknown));
  FOURFOLD_TRY(read_special(config, "pad_token", parts.vocabulary(), parts.padding));
  FOURFOLD_TRY(read_flag(config, "add_bos_token", parts.adds_before));
  FOURFOLD_TRY(read_flag(config, "add_eos_token", parts.adds_after));
  if (parts.bos && parts.before.empty()) parts.before = {*parts.bos};
  if (parts.eos && parts.after.empty()) parts.after = {*parts.eos};
  if ((parts.adds_before && parts.before.empty()) || (parts.adds_after && parts.after.empty()))
    return {Code::malformed, "add_bos_token or add_eos_token is true, but there is no such token"};
  return {};
}

result<TokenizerParts> read_parts(std::string_view text) {
  const auto file = read_tokenizer_file(text);
  if (!file) return file.error();
  const Json& tree = file->tree;
  const Json& model = json_member(tree, "model");
  if (!model.is_object()) return malformed("'model' is not an object");
  PreTokenizer pre_tokenizer;
  bool byte_level = false;
  FOURFOLD_TRY(add_pre_tokenizer(json_member(tree, "pre_tokenizer"), pre_tokenizer, byte_level));
  const auto added = read_added(json_member(tree, "added_tokens"));
  if (!added) return added.error();
  auto merger = read_model(*file, model, *added, byte_level);
  if (!merger) return merger.error();
  TokenizerParts parts(std::move(*merger));
  parts.pre_tokenizer = std::move(pre_tokenizer);
  FOURFOLD_TRY(add_normalizer(json_member(tree, "normalizer"), parts.normalizer));
  FOURFOLD_TRY(add_decoder(json_member(tree, "decoder"), byte_level, parts));
  FOURFOLD_TRY(add_post_processor(json_member(tree, "post_processor"), parts));
  FOURFOLD_TRY(find_in_text(*added, parts));
  return parts;
}

}  // namespace

result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  auto parts = read_parts(tokenizer_json);
  if (!parts) return in_file("tokenizer.json", parts.error());
  FOURFOLD_TRY(in_file("tokenizer_config.json", read_config(tokenizer_config_json, *parts)));
  add_known_ends(*parts);
  return Tokenizer(std::make_shared<const TokenizerParts>(std::move(*parts)));
}

}  // namespace fourfold
