#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "toy_vocabularies.hpp"

namespace fourfold {
namespace {

using Ids = std::vector<int>;

Ids encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {.parse_special = true}) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.error().message();
  return ids ? *ids : Ids{};
}

std::string error_of(const ToyVocabulary& toy) {
  auto built = Tokenizer::from_gguf(toy.to_metadata());
  return built ? "" : built.error().message();
}

void expect_in(std::string_view needle, const std::string& text) {
  EXPECT_NE(text.find(needle), std::string::npos) << "'" << needle << "' is not in: " << text;
}

// Fault T1's vocabulary. The mark doubled scores best, so that merging by score alone would take it first.
struct SpacePrefix : testing::Test {
  int mark = 0, marks = 0, a = 0, mark_a = 0, begin = 0, x = 0;
  Tokenizer build(bool space_prefix, double doubled_score = -1) {
    ToyVocabulary toy = sentence_piece_toy(space_prefix);
    mark = toy.add("▁", 1, -3);
    marks = toy.add("▁▁", 1, doubled_score);
    a = toy.add("a", 1, -4);
    mark_a = toy.add("▁a", 1, -2);
    begin = toy.add("<s2>", 3);
    x = toy.add("<x>", 3);
    return toy.build();
  }
};

TEST_F(SpacePrefix, BehindASpecialTokenStandsAlone) {  // fault T1
  for (const double score : {-1.0, -2.0, -100.0}) {
    const Tokenizer tokenizer = build(true, score);
    EXPECT_EQ(encode(tokenizer, "a<x> a"), (Ids{mark_a, x, mark, mark_a}));
    EXPECT_EQ(encode(tokenizer, "<x>a"), (Ids{x, mark_a}));
    EXPECT_EQ(encode(tokenizer, "<x> "), (Ids{x, marks}));
    EXPECT_EQ(encode(tokenizer, "<x>"), Ids{x});
    EXPECT_EQ(encode(tokenizer, ""), Ids{});
  }
}

TEST_F(SpacePrefix, IsNotThereIfTheFileSaysSo) {  // fault T1
  const Tokenizer tokenizer = build(false);
  EXPECT_EQ(encode(tokenizer, "a<x> a"), (Ids{a, x, mark_a}));
  EXPECT_EQ(encode(tokenizer, "<x>a"), (Ids{x, a}));
}

TEST_F(SpacePrefix, IsDroppedFromTheStartWhenDecoding) {
  const Tokenizer tokenizer = build(true);
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "a a")), "a a");
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, " a")), " a");
  EXPECT_EQ(tokenizer.decode(Ids{1, mark_a, mark_a}), "a a");
  EXPECT_EQ(tokenizer.decode(Ids{1, mark_a}, true), "<s> a");
  const Tokenizer plain = build(false);
  EXPECT_EQ(plain.decode(Ids{mark_a}), " a");
}

TEST(SentencePiece, MergesByScoreThenLeftmost) {
  ToyVocabulary toy = sentence_piece_toy(false);
  const int a = toy.add("a", 1, -10), b = toy.add("b", 1, -10);
  const int aa = toy.add("aa", 1, -2), ab = toy.add("ab", 1, -1);
  const Tokenizer tokenizer = toy.build();
  EXPECT_EQ(encode(tokenizer, "aab"), (Ids{a, ab}));
  EXPECT_EQ(encode(tokenizer, "aaa"), (Ids{aa, a}));
  EXPECT_EQ(encode(tokenizer, "ba"), (Ids{b, a}));
}

TEST(SentencePiece, FallsBackToBytes) {
  ToyVocabulary toy = sentence_piece_toy(false);
  const int a = toy.add("a", 1, -1);
  const Tokenizer tokenizer = toy.build();
  const Ids ids = encode(tokenizer, "a🦙\xFF");
  EXPECT_EQ(ids, (Ids{a, 3 + 0xF0, 3 + 0x9F, 3 + 0xA6, 3 + 0x99, 3 + 0xFF}));
  EXPECT_EQ(tokenizer.decode(ids), "a🦙\xFF");
  EXPECT_EQ(tokenizer.piece(3 + 0x9F), "\x9F");
}

TEST(SentencePiece, UnknownCharactersWithoutByteTokensBecomeOneUnknown) {
  ToyVocabulary toy;
  const int unknown = toy.add("<unk>", 2), a = toy.add("a", 1, -1);
  toy.other = {{"tokenizer.ggml.unknown_token_id", std::int64_t{unknown}}, {"tokenizer.ggml.add_space_prefix", false}};
  EXPECT_EQ(encode(toy.build(), "a中文a"), (Ids{a, unknown, a}));
}

TEST(SentencePiece, UserDefinedTokensMatchFirstAndWhole) {
  ToyVocabulary toy = sentence_piece_toy(false);
  const int mark = toy.add("▁", 1, -3), two = toy.add("  ", 4, -1000), three = toy.add("   ", 4, -1000);
  const int a = toy.add("a", 1, -1), mark_a = toy.add("▁a", 1, -1);
  const Tokenizer tokenizer = toy.build();
  const EncodeOptions plain{};
  EXPECT_EQ(encode(tokenizer, "a  a", plain), (Ids{a, two, a}));
  EXPECT_EQ(encode(tokenizer, "a    a", plain), (Ids{a, three, mark_a}));
  EXPECT_EQ(encode(tokenizer, " a ", plain), (Ids{mark_a, mark}));
  EXPECT_EQ(tokenizer.decode(Ids{a, three, mark_a}), "a    a");
}

TEST(SentencePiece, ControlAndByteTokensNeverComeOutOfPlainText) {
  ToyVocabulary toy = sentence_piece_toy(false);
  for (const char* text : {"<", "s", ">", "<s", "0", "x", "A", "<0", "<0x", "<0xA", "<0xAA"}) toy.add(text, 1, -1);
  const Tokenizer tokenizer = toy.build();
  for (const int id : encode(tokenizer, "<s><0xAA>", {})) EXPECT_GE(id, 3 + 256);
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "<s><0xAA>", {})), "<s><0xAA>");
  EXPECT_EQ(encode(tokenizer, "<s>").front(), 1);
  EXPECT_GE(encode(tokenizer, "<0xAA>").front(), 3 + 256);
}

TEST(SentencePiece, UnusedTokensFallApartIntoWhatMadeThem) {
  ToyVocabulary toy = sentence_piece_toy(false);
  const int a = toy.add("a", 1, -9), b = toy.add("b", 1, -9), c = toy.add("c", 1, -9), ab = toy.add("ab", 5, -1);
  toy.add("abc", 5, -2);
  const int abcc = toy.add("abcc", 1, -3);
  const Tokenizer tokenizer = toy.build();
  EXPECT_EQ(encode(tokenizer, "ab"), (Ids{a, b}));
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{a, b, c}));
  EXPECT_EQ(encode(tokenizer, "abcc"), Ids{abcc});
  EXPECT_EQ(tokenizer.piece(ab), "ab");
}

TEST(SentencePiece, TokensThatSpanASpaceStillMerge) {
  ToyVocabulary toy = sentence_piece_toy(false);
  for (const char* text : {"▁", "a", "b"}) toy.add(text, 1, -9);
  toy.add("a▁", 1, -2);
  const int all = toy.add("a▁b", 1, -1);
  EXPECT_EQ(encode(toy.build(), "a b"), Ids{all});
}

TEST(SentencePiece, IgnoresThePreTokenizerName) {
  ToyVocabulary toy = sentence_piece_toy(false);
  toy.pre = "no-such";
  EXPECT_EQ(error_of(toy), "");
}

TEST(ByteLevel, UnknownPreTokenizerIsRefusedByName) {  // fault T3
  const std::string message = error_of(byte_level_toy("no-such", {}));
  expect_in("tokenizer.ggml.pre", message);
  expect_in("no-such", message);
  for (const char* known : {"gpt-2", "llama-bpe", "qwen2", "smollm"}) {
    expect_in(known, message);
    EXPECT_EQ(error_of(byte_level_toy(known, {})), "");
  }
  expect_in("tokenizer.ggml.pre", error_of(byte_level_toy("", {})));
}

TEST(ByteLevel, MergesByRankWithinPieces) {
  const Tokenizer tokenizer = byte_level_toy("gpt-2", {"l l", "h e", "e l", "he ll", "Ġ he"}).build();
  EXPECT_EQ(encode(tokenizer, "hell"), Ids{259});
  EXPECT_EQ(encode(tokenizer, "hel he"), (Ids{257, 'l', 260}));
  EXPECT_EQ(tokenizer.decode(Ids{259, 260}), "hell he");
}

TEST(ByteLevel, WholePiecesComeFirstForLlama3Only) {
  for (const bool llama3 : {false, true}) {
    ToyVocabulary toy = byte_level_toy(llama3 ? "llama-bpe" : "gpt-2", {"a b"});
    const int whole = toy.add("abc");
    EXPECT_EQ(encode(toy.build(), "abc"), llama3 ? Ids{whole} : (Ids{256, 'c'}));
  }
}

TEST(ByteLevel, SpecialTokensMatchOnlyWhenAsked) {
  ToyVocabulary toy = byte_level_toy("smollm", {});
  const int control = toy.add("<|x|>", 3), user = toy.add("<tool>", 4);
  const Tokenizer tokenizer = toy.build();
  EXPECT_EQ(encode(tokenizer, "a<|x|><tool>"), (Ids{'a', control, user}));
  EXPECT_EQ(encode(tokenizer, "a<|x|><tool>", {}), (Ids{'a', '<', '|', 'x', '|', '>', user}));
  EXPECT_EQ(tokenizer.decode(Ids{'a', control, user}), "a<tool>");
  EXPECT_EQ(tokenizer.decode(Ids{'a', control, user}, true), "a<|x|><tool>");
  EXPECT_TRUE(tokenizer.is_control(control));
  EXPECT_FALSE(tokenizer.is_control(user));
  EXPECT_EQ(tokenizer.find("<|x|>"), control);
  EXPECT_EQ(tokenizer.find("no such"), std::nullopt);
}

TEST(ByteLevel, TheLongestAddedTokenWins) {
  ToyVocabulary toy = byte_level_toy("gpt-2", {});
  const int shorter = toy.add("<a>", 4), longer = toy.add("<a><b>", 4);
  const Tokenizer tokenizer = toy.build();
  EXPECT_EQ(encode(tokenizer, "<a><b><a><"), (Ids{longer, shorter, '<'}));
}

TEST(ByteLevel, AnyBytesRoundTrip) {
  const Tokenizer tokenizer = byte_level_toy("llama-bpe", {"Ã ©", "a b"}).build();
  std::string text = "é \xC3 \xA9 \xF0\x9F ab\xFF\xFE\r\n\x80";
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text);
}

TEST(ByteLevel, Qwen2NormalizesToNfc) {
  const std::string decomposed = "e\xCC\x81", composed = "\xC3\xA9";
  const Tokenizer tokenizer = byte_level_toy("qwen2", {}).build();
  EXPECT_EQ(encode(tokenizer, decomposed), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(encode(tokenizer, composed), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(encode(tokenizer, "\xFF" + decomposed + "\xFF"), (Ids{0xFF, 0xC3, 0xA9, 0xFF}));
}

TEST(Tokenizer, AddsWhatTheFileSaysAroundTheText) {
  ToyVocabulary toy = byte_level_toy("llama-bpe", {});
  const std::int64_t bos = toy.add("<bos>", 3), eos = toy.add("<eos>", 3);
  toy.other = {{"tokenizer.ggml.bos_token_id", bos}, {"tokenizer.ggml.eos_token_id", eos}};
  const int b = static_cast<int>(bos), e = static_cast<int>(eos);
  EXPECT_EQ(encode(toy.build(), "a"), (Ids{b, 'a'}));
  EXPECT_TRUE(toy.build().adds_bos());
  toy.other.emplace_back("tokenizer.ggml.add_bos_token", false);
  EXPECT_EQ(encode(toy.build(), "a"), Ids{'a'});
  EXPECT_EQ(encode(toy.build(), "a", {.add_bos = true}), (Ids{b, 'a'}));
  EXPECT_FALSE(toy.build().adds_bos());
  toy.other.emplace_back("tokenizer.ggml.add_eos_token", true);
  EXPECT_EQ(encode(toy.build(), "a"), (Ids{'a', e}));
  EXPECT_EQ(encode(toy.build(), "a", {.add_bos = true}), (Ids{b, 'a', e}));
  EXPECT_EQ(encode(toy.build(), "a", {.add_bos = false}), Ids{'a'});
  EXPECT_EQ(toy.build().bos(), b);
  EXPECT_EQ(toy.build().eos(), e);
}

TEST(Tokenizer, KnowsEveryEndOfAGeneration) {
  ToyVocabulary toy = byte_level_toy("gpt-2", {"< /"});
  const std::int64_t eos = toy.add("<end>", 3), eot = toy.add("<turn>", 3), eom = toy.add("<message>", 3);
  const int im_end = toy.add("<|im_end|>", 3), end_of_turn = toy.add("<end_of_turn>", 4);
  toy.other = {
      {"tokenizer.ggml.eos_token_id", eos}, {"tokenizer.ggml.eot_token_id", eot}, {"tokenizer.ggml.eom_token_id", eom}};
  const Tokenizer tokenizer = toy.build();
  for (const std::int64_t id : {eos, eot, eom, std::int64_t{im_end}, std::int64_t{end_of_turn}})
    EXPECT_TRUE(tokenizer.is_end(static_cast<int>(id))) << id;
  EXPECT_FALSE(tokenizer.is_end('a'));
  EXPECT_FALSE(tokenizer.is_end(-1));
}

TEST(Tokenizer, BrokenMetadataIsRefusedByName) {
  expect_in("tokenizer.ggml.model", Tokenizer::from_gguf(Metadata()).error().message());
  ToyVocabulary toy = byte_level_toy("gpt-2", {"a b"});
  auto with = [&](auto change) {
    ToyVocabulary changed = toy;
    change(changed);
    return error_of(changed);
  };
  expect_in("'bert'", with([](auto& t) { t.model = "bert"; }));
  expect_in("tokenizer.ggml.tokens", with([](auto& t) { t.tokens.clear(); }));
  expect_in("token_type", with([](auto& t) { t.types.pop_back(); }));
  expect_in("token_type", with([](auto& t) { t.types[3] = 7; }));
  expect_in("'a zz'", with([](auto& t) { t.merges.push_back("a zz"); }));
  expect_in("'a c'", with([](auto& t) { t.merges.push_back("a c"); }));
  expect_in("tokenizer.ggml.merges", with([](auto& t) { t.merges.push_back(""); }));
  expect_in("bos_token_id", with([](auto& t) { t.other = {{"tokenizer.ggml.bos_token_id", std::int64_t{257}}}; }));
  expect_in("eos_token_id", with([](auto& t) { t.other = {{"tokenizer.ggml.eos_token_id", std::int64_t{-1}}}; }));
  expect_in("add_bos_token", with([](auto& t) { t.other = {{"tokenizer.ggml.add_bos_token", true}}; }));
  toy = sentence_piece_toy(false);
  expect_in("scores", with([](auto& t) { t.scores.pop_back(); }));
  expect_in("precompiled_charsmap", with([](auto& t) {
              t.other.emplace_back("tokenizer.ggml.precompiled_charsmap", std::vector<std::int64_t>{1});
            }));
  expect_in("remove_extra_whitespaces",
            with([](auto& t) { t.other.emplace_back("tokenizer.ggml.remove_extra_whitespaces", true); }));
}

TEST(Tokenizer, IdsOutsideTheVocabularyHaveNoPiece) {
  const Tokenizer tokenizer = byte_level_toy("gpt-2", {}).build();
  EXPECT_EQ(tokenizer.piece(-1, true), "");
  EXPECT_EQ(tokenizer.piece(256, true), "");
  EXPECT_FALSE(tokenizer.is_control(256));
  EXPECT_EQ(tokenizer.vocab_size(), 256);
}

void* call(void* work) {
  (*static_cast<std::function<void()>*>(work))();
  return nullptr;
}

void run_on_small_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Tokenizer, LongRunsNeedLittleStack) {  // fault T4
  ToyVocabulary spm = sentence_piece_toy(true);
  for (const char* text : {"▁", "A", ".", "中", "u", "s"}) spm.add(text, 1, -9);
  for (const char* text : {"▁▁", "AA", "us", "..", "中中", "▁▁▁▁", "AAAA"}) spm.add(text, 1, -1);
  const std::vector<std::string> merges = {"A A", "Ġ Ġ", ". .", "Ċ Ċ", "u s", "AA AA", "us us"};
  std::vector<Tokenizer> tokenizers = {spm.build()};
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "smollm"})
    tokenizers.push_back(byte_level_toy(pre, merges).build());
  run_on_small_stack([&] {
    for (const std::string unit : {"A", " ", ".", "中", "\n", "us"}) {
      std::string text;
      for (int i = 0; i < 100000; ++i) text += unit;
      for (const std::string& whole : {text, "x" + text + "x"})
        for (const Tokenizer& tokenizer : tokenizers) EXPECT_EQ(tokenizer.decode(encode(tokenizer, whole)), whole);
    }
  });
}

}  // namespace
}  // namespace fourfold
