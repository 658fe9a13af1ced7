// Ids and texts that Hugging Face tokenizers and SentencePiece gave (tests/data/make_tokenizers.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "toy_vocabularies.hpp"

namespace fourfold {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int>;

std::string read(const std::string& name) {
  std::ifstream file(std::string(FOURFOLD_TEST_DATA "/tokenizers/") + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

void expect_cases(const Tokenizer& tokenizer, const Json& cases) {
  EXPECT_GE(cases.size(), 50u);
  for (const Json& row : cases) {
    const std::string text = row["text"];
    const auto ids = tokenizer.encode(text, {.add_bos = false, .parse_special = true});
    ASSERT_TRUE(ids.ok()) << ids.error().message();
    EXPECT_EQ(*ids, row["ids"].get<Ids>()) << row["text"];
    const std::string decoded = row.value("decoded", std::string("\xEF\xBF\xBD"));
    if (decoded.find("\xEF\xBF\xBD") == std::string::npos) {
      EXPECT_EQ(tokenizer.decode(row["ids"].get<Ids>(), true), decoded) << row["text"];
    }
  }
}

struct FromJson : testing::TestWithParam<const char*> {};

TEST_P(FromJson, GivesHuggingFacesIds) {
  const std::string name = GetParam();
  const auto tokenizer = Tokenizer::from_json(read(name + ".json"), "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  expect_cases(*tokenizer, Json::parse(read("cases.json"))[name]);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, FromJson,
                         testing::Values("smollm", "gpt-2", "llama-bpe", "qwen2", "llama-2", "gemma", "metaspace-first",
                                         "metaspace-split", "prefix-space", "flags"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A tokenizer.json as the GGUF metadata that a converter makes of it.
ToyVocabulary as_gguf(const std::string& name) {
  const Json file = Json::parse(read(name + ".json"));
  ToyVocabulary toy;
  toy.model = "gpt2";
  toy.pre = name;
  toy.tokens.resize(file["model"]["vocab"].size());
  toy.types.resize(toy.tokens.size(), 1);
  for (const auto& [text, id] : file["model"]["vocab"].items()) toy.tokens[id.get<std::size_t>()] = text;
  for (const Json& merge : file["model"]["merges"])
    toy.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  for (const Json& added : file["added_tokens"]) {
    EXPECT_EQ(added["id"].get<std::size_t>(), toy.tokens.size());
    toy.add(added["content"], added["special"].get<bool>() ? 3 : 4);
  }
  return toy;
}

struct FromGguf : testing::TestWithParam<const char*> {};

TEST_P(FromGguf, GivesHuggingFacesIds) {
  expect_cases(as_gguf(GetParam()).build(), Json::parse(read("cases.json"))[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(PreTokenizers, FromGguf, testing::Values("smollm", "gpt-2", "llama-bpe", "qwen2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(FromGguf, GivesSentencePiecesIds) {
  const Json models = Json::parse(read("sentencepiece.json"));
  for (const auto& [name, model] : models.items()) {
    SCOPED_TRACE(name);
    ToyVocabulary toy;
    toy.tokens = model["tokens"].get<std::vector<std::string>>();
    toy.types = model["types"].get<std::vector<std::int64_t>>();
    toy.scores = model["scores"].get<std::vector<double>>();
    toy.other = {{"tokenizer.ggml.unknown_token_id", std::int64_t{0}},
                 {"tokenizer.ggml.add_space_prefix", model["prefix"].get<bool>()}};
    const Tokenizer tokenizer = toy.build();
    EXPECT_GE(model["cases"].size(), 100u);
    for (const Json& row : model["cases"]) {
      const auto ids = tokenizer.encode(row["text"].get<std::string>());
      ASSERT_TRUE(ids.ok());
      EXPECT_EQ(*ids, row["ids"].get<Ids>()) << row["text"];
      EXPECT_EQ(tokenizer.decode(*ids), row["text"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace fourfold
