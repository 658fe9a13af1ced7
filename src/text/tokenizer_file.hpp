// TokenizerFile: a Hugging Face tokenizer.json, read but not yet understood.
//
// The two long parts, the vocabulary and the merges, become plain lists as the events of the parser arrive; the short
// rest becomes a tree.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fourfold {

struct TokenizerFile {
  nlohmann::json tree;  // an object, without model.vocab and model.merges
  std::vector<std::pair<std::string, std::int64_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
};

// malformed: no JSON object, a key twice, or lists of another shape. Also reads tokenizer_config.json.
result<TokenizerFile> read_tokenizer_file(std::string_view text);

}  // namespace fourfold
