// The C interface on a tiny llama: agrees with Model and Session, reports errors into the caller's struct.
#include "fourfold/c.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/session.hpp"

namespace {

const std::string kModel = FOURFOLD_TEST_DATA "/models/llama.f16.gguf";
constexpr std::string_view kText = "the cat sat on the mat";

using ModelHandle = std::unique_ptr<ff_model, decltype(&ff_model_free)>;
using SessionHandle = std::unique_ptr<ff_session, decltype(&ff_session_free)>;

ModelHandle load_model() {
  ff_model* model = nullptr;
  ff_error error;
  EXPECT_EQ(ff_model_load(kModel.c_str(), &model, &error), FF_OK) << error.message;
  return {model, ff_model_free};
}

SessionHandle make_session(const ff_model* model) {
  ff_session* session = nullptr;
  ff_error error;
  EXPECT_EQ(ff_session_create(model, nullptr, &session, &error), FF_OK) << error.message;
  return {session, ff_session_free};
}

std::vector<int32_t> ids_of(const ff_model* model) {
  std::vector<int32_t> ids(64);
  size_t count = 0;
  ff_error error;
  EXPECT_EQ(ff_tokenize(model, kText.data(), kText.size(), 0, ids.data(), ids.size(), &count, &error), FF_OK)
      << error.message;
  ids.resize(count);
  return ids;
}

// What ff_generate reports through its callback.
struct Heard {
  std::vector<int32_t> ids;
  std::string text;
  std::size_t most = 1000;

  static int hear(void* user, int32_t id, const char* text, size_t bytes) {
    auto& self = *static_cast<Heard*>(user);
    self.ids.push_back(id);
    self.text.append(text, bytes);
    return self.ids.size() >= self.most;
  }
};

TEST(C, DescribesTheModel) {
  EXPECT_STREQ(ff_version(), FOURFOLD_VERSION);
  const auto model = load_model();
  EXPECT_STREQ(ff_model_family(model.get()), "llama");
  EXPECT_EQ(ff_model_vocab(model.get()), 331);
  EXPECT_EQ(ff_model_context(model.get()), 256);
}

TEST(C, AMissingFileIsNamed) {
  ff_model* model = nullptr;
  ff_error error;
  EXPECT_EQ(ff_model_load("no-such-file.gguf", &model, &error), FF_NOT_FOUND);
  EXPECT_EQ(error.status, FF_NOT_FOUND);
  EXPECT_NE(std::string_view(error.message).find("no-such-file.gguf"), std::string_view::npos) << error.message;
  EXPECT_EQ(ff_model_load("no-such-file.gguf", &model, nullptr), FF_NOT_FOUND);
}

TEST(C, ALongMessageIsCutAfterAWholeCharacter) {
  const auto model = load_model();
  ff_session_options options;
  ff_session_options_init(&options);
  ff_session* session = nullptr;
  ff_error error;
  for (const char* start : {"", "x", "xx"}) {
    std::string executor = start;
    for (int i = 0; i < 1000; ++i) executor += "\xE2\x96\x81";  // three bytes each
    options.executor = executor.c_str();
    ASSERT_NE(ff_session_create(model.get(), &options, &session, &error), FF_OK);
    const std::string_view message = error.message;
    ASSERT_LT(message.size(), sizeof error.message);
    ASSERT_GE(message.size(), sizeof error.message - 3);
    EXPECT_EQ(message.substr(message.size() - 3), "\xE2\x96\x81");
  }
}

TEST(C, NullPointersAreNamed) {
  const auto model = load_model();
  const auto session = make_session(model.get());
  ff_error error;
  size_t count = 0;
  EXPECT_EQ(ff_model_load(nullptr, nullptr, &error), FF_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "path is NULL");
  EXPECT_EQ(ff_tokenize(model.get(), nullptr, 1, 0, nullptr, 0, &count, &error), FF_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "text is NULL");
  EXPECT_EQ(ff_eval(session.get(), nullptr, 1, &error), FF_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "ids is NULL");
  ff_model_free(nullptr);
  ff_session_free(nullptr);
}

TEST(C, TextGoesToIdsAndBack) {
  const auto model = load_model();
  const auto ids = ids_of(model.get());
  ff_error error;
  size_t needed = 0;
  EXPECT_EQ(ff_detokenize(model.get(), ids.data(), ids.size(), nullptr, 0, &needed, &error), FF_OK);
  EXPECT_EQ(needed, kText.size());
  std::string text(needed, '\0');
  EXPECT_EQ(ff_detokenize(model.get(), ids.data(), ids.size(), text.data(), text.size(), &needed, &error), FF_OK);
  EXPECT_EQ(text, kText);
  EXPECT_EQ(ff_detokenize(model.get(), ids.data(), ids.size(), text.data(), 3, &needed, &error), FF_INVALID_ARGUMENT);
  EXPECT_EQ(needed, kText.size());
}

TEST(C, BosComesWhenAskedFor) {
  const auto model = load_model();
  const auto plain = ids_of(model.get());
  std::vector<int32_t> ids(plain.size() + 1);
  size_t count = 0;
  ASSERT_EQ(
      ff_tokenize(model.get(), kText.data(), kText.size(), FF_TOKENIZE_BOS, ids.data(), ids.size(), &count, nullptr),
      FF_OK);
  EXPECT_EQ(count, ids.size());
  EXPECT_EQ(ids.front(), 1);
}

TEST(C, EvaluatesAsTheSessionDoes) {
  const auto model = load_model();
  const auto session = make_session(model.get());
  const auto ids = ids_of(model.get());
  EXPECT_EQ(ff_logits(session.get()), nullptr);
  ASSERT_EQ(ff_eval(session.get(), ids.data(), ids.size(), nullptr), FF_OK);
  EXPECT_EQ(ff_session_position(session.get()), static_cast<int32_t>(ids.size()));
  EXPECT_EQ(ff_session_context(session.get()), 256);

  auto cxx = fourfold::load(kModel).value().session().value();
  ASSERT_TRUE(cxx.eval(ids).ok());
  const float* logits = ff_logits(session.get());
  const auto expected = cxx.logits();
  EXPECT_EQ(std::vector<float>(logits, logits + 331), std::vector<float>(expected.begin(), expected.end()));

  ASSERT_EQ(ff_session_rewind(session.get(), 1, nullptr), FF_OK);
  EXPECT_EQ(ff_session_position(session.get()), 1);
  EXPECT_EQ(ff_logits(session.get()), nullptr);
}

TEST(C, TooLongAPromptIsRefusedWhole) {
  const auto model = load_model();
  const auto session = make_session(model.get());
  const std::vector<int32_t> ids(257, 5);
  ff_error error;
  EXPECT_EQ(ff_eval(session.get(), ids.data(), ids.size(), &error), FF_RESOURCE);
  EXPECT_NE(std::string_view(error.message).find("257"), std::string_view::npos) << error.message;
  EXPECT_NE(std::string_view(error.message).find("256"), std::string_view::npos) << error.message;
  EXPECT_EQ(ff_session_position(session.get()), 0);
}

TEST(C, GeneratesTheSameWithAndWithoutAFork) {
  auto model = load_model();
  const auto session = make_session(model.get());
  const auto ids = ids_of(model.get());
  ff_session* copy = nullptr;
  ASSERT_EQ(ff_session_fork(session.get(), &copy, nullptr), FF_OK);
  const SessionHandle fork(copy, ff_session_free);
  model.reset();  // sessions keep what they need

  ff_generate_options options;
  ff_generate_options_init(&options);
  options.temperature = 0;
  options.max_tokens = 5;
  options.ignore_eos = 1;
  Heard one, two;
  ff_finish finish = FF_FINISH_EOS;
  ff_error error;
  ASSERT_EQ(ff_generate(session.get(), ids.data(), ids.size(), &options, Heard::hear, &one, &finish, &error), FF_OK)
      << error.message;
  EXPECT_EQ(finish, FF_FINISH_LENGTH);
  ASSERT_EQ(ff_generate(fork.get(), ids.data(), ids.size(), &options, Heard::hear, &two, nullptr, nullptr), FF_OK);
  EXPECT_EQ(one.ids.size(), 5u);
  EXPECT_EQ(one.ids, two.ids);
  EXPECT_EQ(one.text, two.text);
}

TEST(C, TheCallbackAndTheContextEndAGeneration) {
  const auto model = load_model();
  ff_session_options small;
  ff_session_options_init(&small);
  small.context = 16;
  ff_session* made = nullptr;
  ASSERT_EQ(ff_session_create(model.get(), &small, &made, nullptr), FF_OK);
  const SessionHandle session(made, ff_session_free);
  ff_generate_options options;
  ff_generate_options_init(&options);
  options.temperature = 0;
  options.ignore_eos = 1;
  ff_finish finish = FF_FINISH_EOS;
  const int32_t start[] = {5, 6};
  Heard stopping;
  stopping.most = 3;
  ASSERT_EQ(ff_generate(session.get(), start, 2, &options, Heard::hear, &stopping, &finish, nullptr), FF_OK);
  EXPECT_EQ(finish, FF_FINISH_STOPPED);
  EXPECT_EQ(stopping.ids.size(), 3u);
  Heard full;
  ASSERT_EQ(ff_session_rewind(session.get(), 0, nullptr), FF_OK);
  ASSERT_EQ(ff_generate(session.get(), start, 2, &options, Heard::hear, &full, &finish, nullptr), FF_OK);
  EXPECT_EQ(finish, FF_FINISH_CONTEXT);
}

TEST(C, OptionsOfAnUnknownSizeOrValueAreRefused) {
  const auto model = load_model();
  ff_session* session = nullptr;
  ff_error error;
  ff_session_options options;
  ff_session_options_init(&options);
  options.size += 8;
  EXPECT_EQ(ff_session_create(model.get(), &options, &session, &error), FF_INVALID_ARGUMENT);
  EXPECT_NE(std::string_view(error.message).find("options.size"), std::string_view::npos) << error.message;
  ff_session_options_init(&options);
  options.cache = static_cast<ff_cache>(9);
  EXPECT_EQ(ff_session_create(model.get(), &options, &session, &error), FF_INVALID_ARGUMENT);
  EXPECT_NE(std::string_view(error.message).find("cache is 9"), std::string_view::npos) << error.message;
  ff_session_options_init(&options);
  options.executor = "abacus";
  EXPECT_NE(ff_session_create(model.get(), &options, &session, &error), FF_OK);
  EXPECT_NE(std::string_view(error.message).find("abacus"), std::string_view::npos) << error.message;
}

TEST(C, AnOlderCallersOptionsAreTaken) {
  const auto model = load_model();
  ff_session_options options;
  ff_session_options_init(&options);
  options.size = offsetof(ff_session_options, threads);
  options.context = 32;
  options.executor = "abacus";  // beyond what this caller knows of
  ff_session* session = nullptr;
  ff_error error;
  ASSERT_EQ(ff_session_create(model.get(), &options, &session, &error), FF_OK) << error.message;
  EXPECT_EQ(ff_session_context(session), 32);
  ff_session_free(session);
}

}  // namespace
