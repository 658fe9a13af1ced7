// Small vocabularies as GGUF metadata, for the tests of tokenizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/metadata.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace fourfold {

// What a metadata file would hold; to_metadata() makes the views that Metadata wants.
struct ToyVocabulary {
  std::string model = "llama", pre;
  std::vector<std::string> tokens, merges;
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  std::vector<std::pair<std::string, MetaValue>> other;

  int add(std::string text, std::int64_t type = 1, double score = 0) {
    tokens.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
    return static_cast<int>(tokens.size()) - 1;
  }

  Metadata to_metadata() const {
    auto texts = std::make_shared<ToyVocabulary>(*this);
    auto views = [](const std::vector<std::string>& v) { return std::vector<std::string_view>(v.begin(), v.end()); };
    Metadata metadata("toy.gguf", texts);
    metadata.add("tokenizer.ggml.model", std::string_view(texts->model));
    if (!pre.empty()) metadata.add("tokenizer.ggml.pre", std::string_view(texts->pre));
    metadata.add("tokenizer.ggml.tokens", views(texts->tokens));
    metadata.add("tokenizer.ggml.token_type", types);
    if (model == "llama") metadata.add("tokenizer.ggml.scores", scores);
    if (model == "gpt2") metadata.add("tokenizer.ggml.merges", views(texts->merges));
    for (const auto& [key, value] : other) metadata.add(key, value);
    return metadata;
  }
  Tokenizer build() const { return Tokenizer::from_gguf(to_metadata()).value(); }
};

// The character of GPT-2's alphabet for a byte.
inline std::string alphabet(unsigned char byte) {
  auto itself = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  std::uint32_t code = byte;
  if (!itself(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !itself(b);
  }
  std::string out;
  append_utf8(out, code);
  return out;
}

// The 256 bytes (ids are the bytes), then the products of `merges` ("h e": 256, ...).
inline ToyVocabulary byte_level_toy(std::string pre, const std::vector<std::string>& merges) {
  ToyVocabulary toy;
  toy.model = "gpt2";
  toy.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) toy.add(alphabet(static_cast<unsigned char>(byte)));
  for (const std::string& merge : merges) {
    const std::size_t space = merge.find(' ');
    toy.add(merge.substr(0, space) + merge.substr(space + 1));
  }
  toy.merges = merges;
  return toy;
}

// <unk>, <s>, </s>, then the 256 byte tokens (id 3 + byte).
inline ToyVocabulary sentence_piece_toy(bool space_prefix) {
  ToyVocabulary toy;
  toy.add("<unk>", 2);
  toy.add("<s>", 3);
  toy.add("</s>", 3);
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) toy.add(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 6);
  toy.other = {{"tokenizer.ggml.bos_token_id", std::int64_t{1}},
               {"tokenizer.ggml.eos_token_id", std::int64_t{2}},
               {"tokenizer.ggml.unknown_token_id", std::int64_t{0}},
               {"tokenizer.ggml.add_bos_token", false},
               {"tokenizer.ggml.add_space_prefix", space_prefix}};
  return toy;
}

}  // namespace fourfold
