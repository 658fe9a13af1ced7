// Forks: they share pages and never see each other's writes; drafts are verified in one and dropped; what a window or
// a state left behind is evaluated again; and a session holds no more than windows, pages and states say.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <fstream>

#include "cpu/team/memory.hpp"
#include "engine/session_state.hpp"
#include "support/models.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

std::vector<float> logits_of(const Session& session) { return {session.logits().begin(), session.logits().end()}; }

// Logits after ids, evaluated at once by a session of its own.
std::vector<float> after(const Model& model, const SessionOptions& options, const std::vector<int>& ids) {
  auto session = model.session(options);
  EXPECT_TRUE(session.ok());
  EXPECT_TRUE(session->eval(ids).ok());
  return logits_of(*session);
}

// Windows of 32 keys, running states, and whole caches. Batches are shorter than kScanChunk: a whole chunk of a scan
// runs in another form, so that bits would depend on how a prompt was cut.
class Forks : public testing::TestWithParam<const char*> {
 protected:
  const Model model_ = test::open_model(GetParam());
  const SessionOptions options_{.context = 96, .threads = 2, .batch = 8, .page = 8};
};

TEST_P(Forks, GoOnAsIfAlone) {
  EXPECT_TRUE(rc::check([&] {
    std::vector<Session> all;
    all.push_back(std::move(model_.session(options_)).value());
    for (int turn = *rc::gen::inRange(0, 25); turn > 0; --turn) {
      const auto which = *rc::gen::inRange<std::size_t>(0, all.size());
      Session& session = all[which];
      switch (*rc::gen::inRange(0, 6)) {
        case 0:
        case 1:
          if (all.size() < 4) {
            auto fork = session.fork();
            RC_ASSERT(fork.ok());
            all.push_back(std::move(fork).value());
          }
          break;
        case 2:
          RC_ASSERT(session.rewind(*rc::gen::inRange(0, session.position() + 1)).ok());
          break;
        case 3:
          if (all.size() > 1) all.erase(all.begin() + static_cast<std::ptrdiff_t>(which));
          break;
        default: {
          const int count = *rc::gen::inRange(1, 20), seed = *rc::gen::inRange(1, 1000);
          if (session.position() + count >= session.context()) break;
          RC_ASSERT(session.eval(test::some_ids(count, model_.vocab(), static_cast<unsigned>(seed))).ok());
        }
      }
    }
    for (Session& session : all) {
      std::vector<int> ids(session.ids().begin(), session.ids().end());
      ids.push_back(7);
      RC_ASSERT(session.eval(std::vector{7}).ok());
      RC_ASSERT(logits_of(session) == after(model_, options_, ids));
    }
  }));
}

// Speculative decoding: a fork evaluates the draft; the session goes on with the tokens that were right.
TEST_P(Forks, VerifyDraftsAndKeepWhatIsRight) {
  auto session = model_.session(options_);
  ASSERT_TRUE(session.ok());
  std::vector<int> ids = test::some_ids(40, model_.vocab());
  ASSERT_TRUE(session->eval(ids).ok());
  for (const int right : {0, 3, 5}) {
    const std::vector<int> draft = test::some_ids(5, model_.vocab(), static_cast<unsigned>(right) + 2);
    auto fork = session->fork();
    ASSERT_TRUE(fork.ok());
    ASSERT_TRUE(fork->eval(draft, 5).ok());
    ASSERT_TRUE(fork->rewind(session->position() + right).ok());
    ids.insert(ids.end(), draft.begin(), draft.begin() + right);
    ids.push_back(9);
    ASSERT_TRUE(fork->eval(std::vector{9}).ok());
    EXPECT_EQ(logits_of(*fork), after(model_, options_, ids)) << right;
    *session = std::move(*fork);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Forks, testing::Values("gemma3", "mamba2", "llama"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Memory, AForkCopiesOnlyThePageItWrites) {
  const Model model = test::open_model("llama");
  auto session = model.session({.context = 128, .threads = 1, .page = 16});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->eval(test::some_ids(70, model.vocab())).ok());
  auto fork = session->fork();
  ASSERT_TRUE(fork.ok());
  float key[64], value[64], same[64];
  executor_of(*session).cached(0, 69, 0, key, value);
  ASSERT_TRUE(fork->eval(std::vector{1, 2}).ok());
  executor_of(*session).cached(0, 69, 0, same, value);
  EXPECT_TRUE(std::equal(key, key + model.program().caches[0].head_dim, same));
  EXPECT_EQ(fork->cache_bytes(), session->cache_bytes());
}

// What memory_use says at every length: weights aside, and no more than the batch before for a window.
TEST(Memory, IsWhatWindowsAndPagesSay) {
  for (const char* name : {"gemma3", "mamba2", "llama"}) {
    const Model model = test::open_model(name);
    auto session = model.session({.context = 200, .threads = 1, .batch = 16, .page = 16});
    ASSERT_TRUE(session.ok());
    for (int p = 0; p < 200; ++p) {
      ASSERT_TRUE(session->eval(std::vector{p}).ok());
      const auto use = team::memory_use(model.program(), {p + 1, 16, Storage::f16, false, 16});
      ASSERT_EQ(static_cast<double>(session->cache_bytes()), use.caches + use.states) << name << " " << p;
    }
  }
}

std::string with_context(std::string config, const std::string& context) {
  const auto at = config.find("\"max_position_embeddings\": ");
  const auto end = config.find_first_of(",\n", at);
  return config.replace(at, end - at, "\"max_position_embeddings\": " + context);
}

// A context of a million: five windows of 32 keys and one layer that sees everything.
TEST(Memory, OfAMillionPositionsIsWhatTheWindowsLeave) {
  constexpr int kMillion = 1 << 20;
  const test::TempFolder folder;
  const auto copy = [&](const std::string& file) {
    std::ifstream in(test::kModels + "gemma3/" + file, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  folder.write("config.json", with_context(copy("config.json"), std::to_string(kMillion)));
  folder.write("model.safetensors", copy("model.safetensors"));
  auto model = load(folder.path());
  ASSERT_TRUE(model.ok()) << model.error().message();
  auto session = model->session({.context = kMillion, .threads = 2});
  ASSERT_TRUE(session.ok()) << session.error().message();
  ASSERT_TRUE(session->fill(kMillion - 2).ok());
  ASSERT_TRUE(session->eval(std::vector{1}).ok());
  ASSERT_TRUE(session->eval(std::vector{2}).ok());
  const auto use = team::memory_use(model->program(), {kMillion, 512, Storage::f16});
  EXPECT_EQ(static_cast<double>(session->cache_bytes()), use.caches);
  double numbers = 0;  // that a position of a layer without a window takes
  for (const CacheSpec& cache : model->program().caches)
    if (cache.window == 0) numbers += static_cast<double>(cache.kv_heads) * (cache.head_dim + 32);  // values padded
  EXPECT_NEAR(use.caches, 2 * numbers * kMillion, 0.02 * use.caches);
}

}  // namespace
}  // namespace fourfold
