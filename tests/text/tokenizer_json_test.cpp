#include <gtest/gtest.h>

#include <string>

#include "text/tokenizer.hpp"

namespace fourfold {
namespace {

using Ids = std::vector<int>;

// A tokenizer.json; each part can be replaced.
struct File {
  std::string added = "[]", normalizer = "null", pre_tokenizer = "null", post_processor = "null", decoder = "null";
  std::string model = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<s>":3,"</s>":4},"merges":["a b"]})";

  std::string text() const {
    return R"({"version":"1.0","truncation":null,"added_tokens":)" + added + R"(,"normalizer":)" + normalizer +
           R"(,"pre_tokenizer":)" + pre_tokenizer + R"(,"post_processor":)" + post_processor + R"(,"decoder":)" +
           decoder + R"(,"model":)" + model + "}";
  }
};

Tokenizer build(const File& file, std::string_view config = "") {
  auto built = Tokenizer::from_json(file.text(), config);
  EXPECT_TRUE(built.ok()) << built.error().message();
  return built.value();
}

std::string error_of(const std::string& text, std::string_view config = "") {
  auto built = Tokenizer::from_json(text, config);
  return built ? "" : built.error().message();
}
std::string error_of(const File& file, std::string_view config = "") { return error_of(file.text(), config); }

Ids encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  return tokenizer.encode(text, options).value();
}

void expect_in(std::string_view needle, const std::string& text) {
  EXPECT_NE(text.find(needle), std::string::npos) << "'" << needle << "' is not in: " << text;
}

constexpr const char* kSpecial =
    R"([{"id":3,"content":"<s>","special":true},{"id":4,"content":"</s>","special":true},{"id":7,"content":"<t>","special":false}])";

TEST(TokenizerJson, ReadsBothFormsOfMerges) {
  File file;
  EXPECT_EQ(encode(build(file), "aba"), (Ids{2, 0}));
  file.model = R"({"merges":[["a","b"]],"vocab":{"a":0,"b":1,"ab":2}})";
  EXPECT_EQ(encode(build(file), "aba"), (Ids{2, 0}));
}

TEST(TokenizerJson, SpecialTokensMatchOnlyWhenAsked) {
  File file;
  file.added = kSpecial;
  const Tokenizer tokenizer = build(file);
  EXPECT_EQ(encode(tokenizer, "a<s><t>", {.parse_special = true}), (Ids{0, 3, 7}));
  EXPECT_EQ(encode(tokenizer, "a<s><t>"), (Ids{0, 7}));  // what no token can stand for gives none
  EXPECT_TRUE(tokenizer.is_control(3));
  EXPECT_FALSE(tokenizer.is_control(7));
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.piece(5, true), "");  // an id that the file leaves out
}

TEST(TokenizerJson, AddsWhatTheTemplateHas) {
  File file;
  file.added = kSpecial;
  file.post_processor =
      R"({"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
          "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
          "special_tokens":{"<s>":{"id":"<s>","ids":[3],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[4],"tokens":["</s>"]}}}]})";
  const Tokenizer tokenizer = build(file);
  EXPECT_EQ(encode(tokenizer, "a"), (Ids{3, 0, 4}));
  EXPECT_EQ(encode(tokenizer, "a", {.add_bos = false}), Ids{0});
  EXPECT_EQ(tokenizer.bos(), 3);
  EXPECT_TRUE(tokenizer.adds_bos());
  const Tokenizer without = build(file, R"({"add_bos_token":false,"add_eos_token":false,"bos_token":"<s>"})");
  EXPECT_EQ(encode(without, "a"), Ids{0});
  EXPECT_EQ(encode(without, "a", {.add_bos = true}), (Ids{3, 0}));
}

TEST(TokenizerJson, TakesSpecialTokensFromTheConfig) {
  File file;
  file.added = kSpecial;
  const Tokenizer tokenizer = build(
      file,
      R"({"add_bos_token":true,"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","pad_token":"<t>","unk_token":null})");
  EXPECT_EQ(encode(tokenizer, "a"), (Ids{3, 0}));
  EXPECT_EQ(tokenizer.eos(), 4);
  EXPECT_EQ(tokenizer.padding(), 7);
  EXPECT_EQ(tokenizer.unknown(), std::nullopt);
  EXPECT_TRUE(tokenizer.is_end(4));
  EXPECT_FALSE(tokenizer.is_end(3));
}

TEST(TokenizerJson, InvalidUtf8BecomesByteTokens) {
  File file;
  file.model = R"({"byte_fallback":true,"vocab":{"a":0,"<0xFF>":1,"<0xE4>":2},"merges":[]})";
  file.decoder = R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]})";
  const Tokenizer tokenizer = build(file);
  EXPECT_EQ(encode(tokenizer,
                   "a\xFF\xE4"
                   "a"),
            (Ids{0, 1, 2, 0}));
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2, 0}),
            "a\xFF\xE4"
            "a");
}

TEST(TokenizerJson, PatternsThatReachALimitAreAnError) {
  File file;
  file.pre_tokenizer = R"-({"type":"Split","pattern":{"Regex":"(a|a)*(a|a)*(a|a)*(c|d)"}})-";
  const auto ids = build(file).encode(std::string(3000, 'a'));
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code(), Code::resource);
}

TEST(TokenizerJson, WhatIsNotImplementedIsRefusedByName) {
  const File file;
  auto with = [&](auto change) {
    File changed = file;
    change(changed);
    return error_of(changed);
  };
  expect_in("'Unigram'", with([](File& f) { f.model = R"({"type":"Unigram","vocab":[]})"; }));
  expect_in("'WordPiece'", with([](File& f) { f.model = R"({"type":"WordPiece","vocab":{"a":0}})"; }));
  expect_in("dropout", with([](File& f) { f.model = R"({"dropout":0.1,"vocab":{"a":0},"merges":[]})"; }));
  expect_in("end_of_word_suffix",
            with([](File& f) { f.model = R"({"end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]})"; }));
  expect_in("'Lowercase'",
            with([](File& f) { f.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})"; }));
  expect_in("'BertPreTokenizer'", with([](File& f) { f.pre_tokenizer = R"({"type":"BertPreTokenizer"})"; }));
  expect_in("behind ByteLevel", with([](File& f) {
              f.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]})";
            }));
  expect_in("'Sideways'", with([](File& f) {
              f.pre_tokenizer = R"({"type":"Split","pattern":{"String":" "},"behavior":"Sideways"})";
            }));
  expect_in("'_'", with([](File& f) { f.pre_tokenizer = R"({"type":"Metaspace","replacement":"_"})"; }));
  expect_in("'WordPiece'", with([](File& f) { f.decoder = R"({"type":"WordPiece"})"; }));
  expect_in("'RobertaProcessing'", with([](File& f) { f.post_processor = R"({"type":"RobertaProcessing"})"; }));
  for (const char* expression : {"[a[b]]", "[a&&b]", "\\\\Ra", "(?m:a)", "(*UCP)a"})
    expect_in("not supported", with([&](File& f) {
                f.pre_tokenizer = std::string(R"({"type":"Split","pattern":{"Regex":")") + expression + R"("}})";
              }));
}

TEST(TokenizerJson, BrokenFilesAreRefused) {
  const File file;
  auto with = [&](auto change) {
    File changed = file;
    change(changed);
    return error_of(changed);
  };
  expect_in("tokenizer.json", error_of(std::string()));
  for (const char* text : {"{", "[]", "null", "{}", R"({"model":[]})", R"({"model":{}})", R"({"model":{"vocab":{}}})"})
    EXPECT_NE(error_of(std::string(text)), "") << text;
  EXPECT_NE(error_of(std::string(100000, '[')), "");
  EXPECT_NE(error_of(R"({"model":)" + std::string(100000, '[')), "");
  expect_in("twice", error_of(R"({"model":{"vocab":{"a":0},"vocab":{"b":0},"merges":[]}})"));
  expect_in("'a'", with([](File& f) { f.model = R"({"vocab":{"a":0,"a":1},"merges":[]})"; }));
  expect_in("'b'", with([](File& f) { f.model = R"({"vocab":{"a":0,"b":0},"merges":[]})"; }));
  expect_in("'a'", with([](File& f) { f.model = R"({"vocab":{"a":"0"},"merges":[]})"; }));
  expect_in("'a'", with([](File& f) { f.model = R"({"vocab":{"a":-1},"merges":[]})"; }));
  expect_in("99999999999", with([](File& f) { f.model = R"({"vocab":{"a":99999999999},"merges":[]})"; }));
  expect_in("2000000000", with([](File& f) { f.model = R"({"vocab":{"a":2000000000},"merges":[]})"; }));
  expect_in("merge", with([](File& f) { f.model = R"({"vocab":{"a":0},"merges":["a"]})"; }));
  expect_in("merge", with([](File& f) { f.model = R"({"vocab":{"a":0},"merges":[["a","a","a"]]})"; }));
  expect_in("merge", with([](File& f) { f.model = R"({"vocab":{"a":0},"merges":[1]})"; }));
  expect_in("merge 0", with([](File& f) { f.model = R"({"vocab":{"a":0},"merges":["a a"]})"; }));
  expect_in("unk_token", with([](File& f) { f.model = R"({"vocab":{"a":0},"merges":[],"unk_token":"x"})"; }));
  expect_in("'<t>'", with([](File& f) { f.added = R"([{"id":0,"content":"<t>"}])"; }));
  expect_in("'a'", with([](File& f) { f.added = R"([{"id":9,"content":"a"}])"; }));
  expect_in("pattern", with([](File& f) { f.pre_tokenizer = R"({"type":"Split","pattern":{"String":""}})"; }));
  expect_in("pattern", with([](File& f) { f.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"("}})"; }));
  expect_in("special_tokens", with([](File& f) {
              f.post_processor =
                  R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}})";
            }));
  expect_in("'zz'", error_of(file, R"({"bos_token":"zz"})"));
  expect_in("add_bos_token", error_of(file, R"({"add_bos_token":true})"));
  expect_in("tokenizer_config.json", error_of(file, "{"));
}

}  // namespace
}  // namespace fourfold
