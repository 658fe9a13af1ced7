// Forks: they share pages and never see each other's writes; drafts are verified in one and dropped; what a window or
// a state left behind is evaluated again; and a session holds no more than windows, pages and states say.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <cmath>
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

// Random forks, rewinds, ends and evaluations of up to `most` ids. Then each session gets one id more, and
// check(logits, ids) its logits and all its ids.
template <class Check>
void play(const Model& model, const SessionOptions& options, int most, const Check& check) {
  std::vector<Session> all;
  all.push_back(std::move(model.session(options)).value());
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
        const int count = *rc::gen::inRange(1, most), seed = *rc::gen::inRange(1, 1000);
        if (session.position() + count >= session.context()) break;
        RC_ASSERT(session.eval(test::some_ids(count, model.vocab(), static_cast<unsigned>(seed))).ok());
      }
    }
  }
  for (Session& session : all) {
    std::vector<int> ids(session.ids().begin(), session.ids().end());
    ids.push_back(7);
    RC_ASSERT(session.eval(std::vector{7}).ok());
    check(logits_of(session), ids);
  }
}

TEST_P(Forks, GoOnAsIfAlone) {
  EXPECT_TRUE(rc::check([&] {
    play(model_, options_, 20, [&](const std::vector<float>& logits, const std::vector<int>& ids) {
      RC_ASSERT(logits == after(model_, options_, ids));
    });
  }));
}

// Whole chunks of a scan, and a latent that is expanded for many tokens and absorbed for few: how a prompt was cut, and
// where a rewind went back to, decides the form; float32 activations then agree to 1e-5 of all logits.
class ForksOfChunks : public testing::TestWithParam<const char*> {};

TEST_P(ForksOfChunks, GoOnAsIfAloneWithinRounding) {
  const Model model = test::open_model(GetParam());
  const SessionOptions options{.context = 160, .threads = 2, .f32 = true, .batch = 64, .page = 8};
  EXPECT_TRUE(rc::check([&] {
    play(model, options, 70, [&](const std::vector<float>& logits, const std::vector<int>& ids) {
      const std::vector<float> alone = after(model, options, ids);
      double error = 0, size = 0;
      for (std::size_t i = 0; i < alone.size(); ++i) {
        error += std::pow(double{logits[i]} - double{alone[i]}, 2);
        size += std::pow(double{alone[i]}, 2);
      }
      RC_ASSERT(error <= 1e-10 * size);
    });
  }));
}
INSTANTIATE_TEST_SUITE_P(Models, ForksOfChunks,
                         testing::Values("mamba2", "hybrids/qwen3_5", "hybrids/kimi_linear", "hybrids/minimax"),
                         [](const auto& info) { return test::test_name(info.param); });

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

constexpr int kMillion = 1 << 20;

// A tiny model, made for a million positions. Its configuration names them in one of two ways.
Model model_of_a_million(const std::string& name) {
  const test::TempFolder folder;
  const auto copy = [&](const std::string& file) {
    std::ifstream in(test::kModels + name + "/" + file, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  std::string config = copy("config.json");
  for (const std::string key : {"\"max_position_embeddings\": ", "\"model_max_length\": "})
    if (const auto at = config.find(key); at != std::string::npos)
      config.replace(at, config.find_first_of(",\n", at) - at, key + std::to_string(kMillion));
  folder.write("config.json", config);
  folder.write("model.safetensors", copy("model.safetensors"));
  auto model = load(folder.path());
  if (!model.ok()) throw std::runtime_error(model.error().message());
  return std::move(model).value();
}

Session full_session(const Model& model) {
  auto session = model.session({.context = kMillion, .threads = 2});
  if (!session.ok()) throw std::runtime_error(session.error().message());
  EXPECT_TRUE(session->fill(kMillion - 2).ok());
  EXPECT_TRUE(session->eval(std::vector{1}).ok());
  EXPECT_TRUE(session->eval(std::vector{2}).ok());
  return std::move(session).value();
}

// Bytes of this process that are in memory.
double resident() {
  std::ifstream in("/proc/self/statm");
  double all = 0, pages = 0;
  in >> all >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // shadow memory counts, too
#else
constexpr bool kSanitized = false;
#endif

// Hybrids: Kimi's delta attention beside latents, gated DeltaNet and Mamba-2 beside attention. What the process grows
// by is what memory_use (and so `explain`) says, and that is the caches' width times a million and the states.
class MemoryOfHybrids : public testing::TestWithParam<const char*> {};

TEST_P(MemoryOfHybrids, OfAMillionPositionsIsWhatLatentsAndStatesSay) {
  const Model model = model_of_a_million(GetParam());
  const Program& program = model.program();
  ASSERT_FALSE(program.states.empty());
  ASSERT_FALSE(program.caches.empty());
  ASSERT_TRUE(model.session({.context = 64, .threads = 2})->eval(std::vector{1}).ok());  // loads the weights
  const double before = resident();
  const Session session = full_session(model);
  const double grown = resident() - before;
  const auto use = team::memory_use(program, {kMillion, 512, Storage::f16});
  EXPECT_EQ(static_cast<double>(session.cache_bytes()), use.caches + use.states);
  EXPECT_EQ(use.states, 2.0 * static_cast<double>(program.state_numbers()) * sizeof(float));  // and their checkpoint
  double numbers = 0;
  for (const CacheSpec& cache : program.caches) {
    const int values = (cache.values() + 15) / 16 * 16;  // values are padded, of a latent those within its key
    numbers += static_cast<double>(cache.kv_heads) * (cache.head_dim + values - (cache.keys_only ? cache.values() : 0));
  }
  EXPECT_NEAR(use.caches, 2 * numbers * kMillion, 0.02 * use.caches);
  if (!kSanitized) {
    constexpr double kScratch = 16 << 20;  // of an executor and its huge pages, whatever the model's size
    EXPECT_NEAR(grown, use.caches + use.states + use.arena, 0.02 * grown + kScratch);
  }
}
INSTANTIATE_TEST_SUITE_P(Models, MemoryOfHybrids,
                         testing::Values("hybrids/kimi_linear", "hybrids/qwen3_5", "hybrids/falcon_h1"),
                         [](const auto& info) { return test::test_name(info.param); });

// Five windows of 32 keys and one layer that sees everything.
TEST(Memory, OfAMillionPositionsIsWhatTheWindowsLeave) {
  const Model model = model_of_a_million("gemma3");
  const Session session = full_session(model);
  const auto use = team::memory_use(model.program(), {kMillion, 512, Storage::f16});
  EXPECT_EQ(static_cast<double>(session.cache_bytes()), use.caches);
  double numbers = 0;  // that a position of a layer without a window takes
  for (const CacheSpec& cache : model.program().caches)
    if (cache.window == 0) numbers += static_cast<double>(cache.kv_heads) * (cache.head_dim + 32);  // values padded
  EXPECT_NEAR(use.caches, 2 * numbers * kMillion, 0.02 * use.caches);
}

}  // namespace
}  // namespace fourfold
