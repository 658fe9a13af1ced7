// Sessions: evaluate, rewind, fork, save and restore without changing a bit; full contexts and bad input say why.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "cpu/team/team.hpp"
#include "support/models.hpp"
#include "support/reject.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

using test::TempFolder;

std::vector<float> logits_of(const Session& session) { return {session.logits().begin(), session.logits().end()}; }

class Sessions : public testing::TestWithParam<const char*> {
 protected:
  Session make(SessionOptions options = {}) const {
    options.executor = GetParam();
    options.threads = 2;
    auto session = model_.session(options);
    EXPECT_TRUE(session.ok()) << session.error().message();
    return std::move(session).value();
  }
  std::vector<float> after(std::span<const int> ids) const {
    Session session = make();
    EXPECT_TRUE(session.eval(ids).ok());
    return logits_of(session);
  }

  const Model model_ = test::open_model("gemma3");
  const std::vector<int> ids_ = test::some_ids(80, model_.vocab()), other_ = test::some_ids(50, model_.vocab(), 5);
};

TEST_P(Sessions, RewindGoesOnAsIfNothingHadFollowed) {
  Session session = make();
  ASSERT_TRUE(session.eval(std::span(ids_).first(60)).ok());
  ASSERT_TRUE(session.eval(other_).ok());
  ASSERT_TRUE(session.rewind(60).ok());
  EXPECT_EQ(session.position(), 60);
  ASSERT_TRUE(session.eval(std::span(ids_).subspan(60)).ok());
  EXPECT_EQ(logits_of(session), after(ids_));
  EXPECT_EQ(session.rewind(81).code(), Code::invalid_argument);
  EXPECT_EQ(session.rewind(-1).code(), Code::invalid_argument);
  EXPECT_EQ(session.position(), 80);
  ASSERT_TRUE(session.rewind(0).ok());
  ASSERT_TRUE(session.eval(other_).ok());
  EXPECT_EQ(logits_of(session), after(other_));
}

TEST_P(Sessions, ForksAreIndependent) {
  Session session = make();
  ASSERT_TRUE(session.eval(std::span(ids_).first(60)).ok());
  auto fork = session.fork();
  ASSERT_TRUE(fork.ok()) << fork.error().message();
  EXPECT_EQ(logits_of(*fork), logits_of(session));
  ASSERT_TRUE(session.eval(other_).ok());
  ASSERT_TRUE(fork->eval(std::span(ids_).subspan(60)).ok());
  EXPECT_EQ(logits_of(*fork), after(ids_));
  EXPECT_EQ(fork->position(), 80);
  EXPECT_EQ(session.position(), 110);
}

TEST_P(Sessions, RestoreGoesOnFromWhatWasSaved) {
  const TempFolder folder;
  const std::string path = folder.path("session");
  Session session = make();
  ASSERT_TRUE(session.eval(std::span(ids_).first(60)).ok());
  ASSERT_TRUE(session.save(path).ok());
  Session later = make();
  ASSERT_TRUE(later.eval(other_).ok());  // overwritten by what is restored
  ASSERT_TRUE(later.restore(path).ok());
  EXPECT_EQ(std::vector<int>(later.ids().begin(), later.ids().end()),
            std::vector<int>(ids_.begin(), ids_.begin() + 60));
  ASSERT_TRUE(later.eval(std::span(ids_).subspan(60)).ok());
  EXPECT_EQ(logits_of(later), after(ids_));
}

INSTANTIATE_TEST_SUITE_P(Executors, Sessions, testing::Values("team", "reference"),
                         [](const auto& info) { return std::string(info.param); });

Session open_session(const std::string& model, SessionOptions options = {}) {
  options.threads = options.threads ? options.threads : 2;
  return std::move(test::open_model(model).session(options)).value();
}

TEST(Session, RestoreRefusesWhatIsNotItsOwn) {
  const TempFolder folder;
  const std::string path = folder.path("session");
  Session session = open_session("gemma3", {.context = 128});
  ASSERT_TRUE(session.eval(test::some_ids(70, 331)).ok());
  ASSERT_TRUE(session.save(path).ok());
  Session other_model = open_session("qwen3"), other_cache = open_session("gemma3", {.cache = Storage::bf16}),
          short_one = open_session("gemma3", {.context = 69});
  EXPECT_REJECT(other_model.restore(path), Code::unsupported, "saved from 'gemma3");
  EXPECT_REJECT(other_cache.restore(path), Code::unsupported, "f16, 96 bytes a position, window 32'; this session is");
  EXPECT_REJECT(short_one.restore(path), Code::resource, "holds 70 tokens; the context holds 69");
  EXPECT_REJECT(session.restore(folder.path("none")), Code::not_found, "cannot open");
  EXPECT_REJECT(session.restore(folder.write("text", "no session at all")), Code::malformed, "does not begin as one");

  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  for (const std::size_t size :
       {std::size_t{9}, std::size_t{40}, std::size_t{260}, bytes.size() / 2, bytes.size() - 1}) {
    const std::string cut = folder.write("cut", bytes.substr(0, size));
    Session fresh = open_session("gemma3", {.context = 128});
    EXPECT_REJECT(fresh.restore(cut), Code::malformed, "not a usable session file: ");
    EXPECT_EQ(fresh.position(), 0);
  }
}

// Every single bit counts, and so does every byte of length; a refused file leaves the session as it was.
TEST(Session, RestoreRefusesDamage) {
  const TempFolder folder;
  for (const char* model : {"gemma3", "mamba2"}) {
    Session session = open_session(model, {.context = 64});
    ASSERT_TRUE(session.eval(test::some_ids(9, 331)).ok());
    ASSERT_TRUE(session.save(folder.path("whole")).ok());
    ASSERT_TRUE(session.eval(std::vector{5}).ok());
    const auto before = logits_of(session);
    std::ifstream in(folder.path("whole"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    for (std::size_t at = 0; at < bytes.size(); at += at < 150 ? 1 : 911) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      ASSERT_FALSE(session.restore(folder.write("damaged", damaged)).ok()) << model << " byte " << at;
      ASSERT_FALSE(session.restore(folder.write("cut", bytes.substr(0, at))).ok()) << model << " cut at " << at;
    }
    ASSERT_FALSE(session.restore(folder.write("longer", bytes + "x")).ok());
    EXPECT_EQ(session.position(), 10);
    EXPECT_EQ(logits_of(session), before);
    EXPECT_TRUE(session.restore(folder.path("whole")).ok());
    EXPECT_EQ(session.position(), 9);
  }
}

TEST(Session, RestoreNamesAnotherVersionAndAnotherModel) {
  const TempFolder folder;
  Session session = open_session("llama", {.context = 64});
  ASSERT_TRUE(session.eval(test::some_ids(9, 331)).ok());
  ASSERT_TRUE(session.save(folder.path("session")).ok());
  std::ifstream in(folder.path("session"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  bytes[7] = '3';
  EXPECT_REJECT(session.restore(folder.write("later", bytes)), Code::unsupported,
                "is of version 03 of the session format; this build reads 02");
  Session sibling = open_session("variants/llama_llama3");
  EXPECT_REJECT(sibling.restore(folder.path("session")), Code::unsupported, "this session is '");
}

// Pages and threads are the session's own affair; so is what has been read of a window before.
TEST(Session, RestoreTakesFilesOfOtherPages) {
  const TempFolder folder;
  const auto ids = test::some_ids(90, 331);
  Session saved = open_session("gemma3", {.context = 128, .threads = 1, .page = 4});
  ASSERT_TRUE(saved.eval(std::span(ids).first(70)).ok());
  ASSERT_TRUE(saved.save(folder.path("session")).ok());
  ASSERT_TRUE(saved.eval(std::span(ids).subspan(70)).ok());
  Session restored = open_session("gemma3", {.context = 256, .batch = 7, .page = 256});
  ASSERT_TRUE(restored.restore(folder.path("session")).ok());
  ASSERT_TRUE(restored.eval(std::span(ids).subspan(70)).ok());
  EXPECT_EQ(logits_of(restored), logits_of(saved));
  ASSERT_TRUE(restored.rewind(20).ok());  // evaluated again: the file held the window's keys only
  ASSERT_TRUE(restored.eval(std::span(ids).subspan(20)).ok());
  EXPECT_EQ(logits_of(restored), logits_of(saved));
}

TEST(Session, SaveLeavesNoHalfAFile) {
  const TempFolder folder;
  Session session = open_session("gemma3");
  ASSERT_TRUE(session.eval(test::some_ids(5, 331)).ok());
  EXPECT_REJECT(session.save(folder.path("none/session")), Code::io, "cannot write the session");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  if (std::filesystem::exists("/dev/full")) {  // a full disk
    std::filesystem::create_symlink("/dev/full", folder.path("session.partial"));
    EXPECT_REJECT(session.save(folder.path("session")), Code::io, "cannot write the session");
    EXPECT_FALSE(std::filesystem::exists(folder.path("session")));
  }
}

TEST(Session, BadInputChangesNothing) {
  Session session = open_session("llama", {.context = 40});
  ASSERT_TRUE(session.eval(test::some_ids(10, 331)).ok());
  const auto before = logits_of(session);
  EXPECT_REJECT(session.eval({}), Code::invalid_argument, "no token");
  EXPECT_REJECT(session.eval(std::vector{3, 331}), Code::invalid_argument, "331 is outside the vocabulary");
  EXPECT_REJECT(session.eval(std::vector{-1}), Code::invalid_argument, "-1 is outside the vocabulary");
  EXPECT_REJECT(session.eval(std::vector{1, 2}, 3), Code::invalid_argument, "logits of 3 tokens wanted of 2");
  EXPECT_REJECT(session.eval(test::some_ids(31, 331)), Code::resource,
                "31 tokens do not fit: the context holds 40, of which 10 are taken");
  EXPECT_EQ(session.position(), 10);
  EXPECT_EQ(logits_of(session), before);
  EXPECT_TRUE(session.eval(test::some_ids(30, 331)).ok());
}

TEST(Session, OptionsOutOfRangeAreRefused) {
  const Model model = test::open_model("llama");
  EXPECT_REJECT(model.session({.context = 257}), Code::invalid_argument,
                "context 257 is out of range; accepted: 1 to 256");
  EXPECT_REJECT(model.session({.context = -1}), Code::invalid_argument, "context -1");
  EXPECT_REJECT(model.session({.batch = 0}), Code::invalid_argument, "batch 0");
  for (const int page : {0, -1, 3, 48, 512})
    EXPECT_REJECT(model.session({.page = page}), Code::invalid_argument,
                  "page " + std::to_string(page) + " is out of range; accepted: 1, 2, 4, 8 .. 256");
  EXPECT_REJECT(model.session({.threads = -2}), Code::invalid_argument, "threads -2");
  EXPECT_REJECT(model.session({.executor = "abacus"}), Code::invalid_argument, "executor 'abacus' is not known");
  const auto unmet = model.session({.cache = Storage::q8_0});
  ASSERT_FALSE(unmet.ok());
  EXPECT_NE(unmet.error().message().find("q8_0 needs a head dimension that is a multiple of 32, not 16"),
            std::string::npos);
}

TEST(Generation, SaysWhyItEnds) {
  const auto prompt = test::some_ids(6, 331);
  Session session = open_session("llama", {.context = 12});
  auto full = session.generate(std::span<const int>(prompt), {.sampling = {.temperature = 0}, .ignore_eos = true});
  while (full.next()) continue;
  EXPECT_EQ(full.finish(), Finish::context);
  EXPECT_EQ(session.position(), 12);
  EXPECT_EQ(full.ids().size(), 7u);  // the last one needs no place

  ASSERT_TRUE(session.rewind(0).ok());
  auto counted = session.generate(std::span<const int>(prompt), {.max_tokens = 3, .ignore_eos = true});
  while (counted.next()) continue;
  EXPECT_EQ(counted.finish(), Finish::length);
  EXPECT_EQ(counted.ids().size(), 3u);

  ASSERT_TRUE(session.rewind(0).ok());
  std::atomic<bool> cancel = true;
  auto cancelled = session.generate(std::span<const int>(prompt), {.cancel = &cancel});
  EXPECT_FALSE(cancelled.next());
  EXPECT_EQ(cancelled.finish(), Finish::cancelled);

  auto empty = open_session("llama").generate(std::span<const int>{});
  EXPECT_FALSE(empty.next());
  EXPECT_EQ(empty.finish(), Finish::error);
  EXPECT_EQ(empty.error().code(), Code::invalid_argument);

  ASSERT_TRUE(session.rewind(0).ok());
  auto long_one = session.generate(std::span<const int>(test::some_ids(13, 331)));
  EXPECT_FALSE(long_one.next());
  EXPECT_NE(long_one.error().message().find("13 tokens do not fit: the context holds 12"), std::string::npos);
}

// Matrices that no memory is left to read; they are read by threads.
class NoMemory : public WeightBytes {
 public:
  status read(const TensorSpec& tensor, std::uint64_t, std::span<std::byte> out) const override {
    if (tensor.rows > 1) throw std::bad_alloc();
    std::fill(out.begin(), out.end(), std::byte{0});
    return {};
  }
};

TEST(Loading, SaysWhenMemoryRunsOutInAThread) {
  const Model model = test::open_model("llama");
  EXPECT_REJECT(make_team(model.program(), NoMemory{}, {.threads = 4}), Code::resource, "out of memory");
}

TEST(Generation, AnEmptyPromptGoesOnOnlyFromLogitsOfItsPosition) {
  const auto prompt = test::some_ids(6, 331);
  const std::span<const int> nothing;
  Session session = open_session("llama");
  ASSERT_TRUE(session.eval(prompt).ok());
  EXPECT_TRUE(session.generate(nothing, {.max_tokens = 1}).next());
  EXPECT_TRUE(session.logits(1).empty());
  EXPECT_TRUE(session.logits(-1).empty());
  ASSERT_TRUE(session.rewind(3).ok());
  EXPECT_TRUE(session.logits().empty());
  EXPECT_EQ(session.generate(nothing).finish(), Finish::error);
  ASSERT_TRUE(session.eval(prompt).ok());
  ASSERT_TRUE(session.fill(4).ok());
  EXPECT_EQ(session.generate(nothing).finish(), Finish::error);
}

TEST(Model, ServesSessionsOfSeveralThreads) {
  const Model model = test::open_model("qwen3");
  const auto ids = test::some_ids(40, model.vocab());
  const auto expected = test::all_logits(model, {.threads = 1}, ids, 512);
  std::vector<std::vector<float>> found(3);
  std::vector<std::thread> users;
  for (auto& mine : found)
    users.emplace_back(
        [&] { mine = test::all_logits(model, {.threads = 1 + static_cast<int>(&mine - found.data()) % 2}, ids, 7); });
  for (auto& user : users) user.join();
  for (const auto& mine : found) EXPECT_EQ(mine, expected);
}

}  // namespace
}  // namespace fourfold
