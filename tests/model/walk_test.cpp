// Walks and scores of a Program's own: the same bits as the built-in ones where they say the same, and what the
// reference computes where they do not.
#include <cmath>
#include <cstring>
#include <fourfold/walk_lists.hpp>

#include "support/models.hpp"

namespace fourfold {
namespace {

constexpr int kIds = 90;

Model with_walk(const Model& model, const AnyWalk& walk, const AnyScore& score = {}) {
  return model.with([&](Program& program) {
    for (Step& step : program.steps)
      if (auto* attend = std::get_if<Attend>(&step.op)) {
        attend->walk = walk;
        attend->score = score;
      }
  });
}

std::vector<float> logits(const Model& model, SessionOptions options, int chunk = 512) {
  if (options.threads == 0) options.threads = 2;
  return test::all_logits(model, options, test::some_ids(kIds, model.vocab()), chunk);
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-4) << i;
}

TEST(OwnWalk, CausalAndWindowAreTheBuiltInOnes) {
  const Model plain = test::open_model("llama");
  expect_same_bits(logits(with_walk(plain, Causal{}, Plain{}), {}), logits(plain, {}));
  const Model windowed = plain.with([](Program& program) {
    for (CacheSpec& cache : program.caches) cache.window = 9;
  });
  for (int chunk : {1, 7, 512}) expect_same_bits(logits(with_walk(plain, Window{9}), {}, chunk), logits(windowed, {}));
}

TEST(OwnWalk, ListsOfBlocksAndTreesRunAsTheReferenceDoes) {
  const Model plain = test::open_model("llama");
  std::vector<int> offsets{0}, ids;  // blocks of 10 queries see block 0, every other one, and their own, of 10 keys
  for (int block = 0; block < kIds / 10; ++block) {
    for (int b = 0; b <= block; ++b)
      if (b == 0 || b == block || (block - b) % 2 == 0) ids.push_back(b);
    offsets.push_back(static_cast<int>(ids.size()));
  }
  const auto blocks = BlockList::make(offsets, ids, 10, 10);
  ASSERT_TRUE(blocks.ok());
  std::vector<int> parents;  // two branches behind a prefix of 40
  for (int node = 0; node < kIds - 40; ++node) parents.push_back(node < 2 ? -1 : node - 2);
  const auto tree = TreeMask::make(40, parents);
  ASSERT_TRUE(tree.ok());
  for (const AnyWalk& walk : {AnyWalk(*blocks & Causal{}), AnyWalk(*tree)}) {
    const Model mine = with_walk(plain, walk);
    const auto exact = logits(mine, {.executor = "reference"});
    expect_near(logits(mine, {.f32 = true}), exact);
    expect_same_bits(logits(mine, {}, 1), logits(mine, {}));
    expect_same_bits(logits(mine, {.threads = 7}, 13), logits(mine, {.threads = 1}));
  }
}

// Latent attention has two forms: one for few tokens, one for many.
TEST(OwnWalk, RunsOverLatentsInBothForms) {
  for (const char* name : {"variants/deepseek_v3_yarn", "hybrids/kimi_linear"}) {
    const Model plain = test::open_model(name);
    expect_same_bits(logits(with_walk(plain, Causal{}, Plain{}), {}), logits(plain, {}));
    const Model mine = with_walk(plain, Window{9}, Alibi{4});
    const auto exact = logits(mine, {.executor = "reference"});
    for (int chunk : {1, 3, 512}) expect_near(logits(mine, {.f32 = true}, chunk), exact);
    expect_same_bits(logits(mine, {.threads = 7}, 13), logits(mine, {.threads = 1}, 13));
    const auto other = logits(plain, {.executor = "reference"});
    EXPECT_GT(std::abs(exact.back() - other.back()), 1e-2f);
  }
}

TEST(OwnWalk, BesideTopKeysIsRefused) {
  const Model mine = with_walk(test::open_model("variants/deepseek_v32"), Window{9});
  const auto session = mine.session({});
  ASSERT_FALSE(session.ok());
  EXPECT_NE(session.error().message().find("blk.0.attend: a walk or score of its own beside top keys"),
            std::string::npos)
      << session.error().message();
}

TEST(OwnWalk, ScoresKnowTheirHeadAndPositions) {
  const Model plain = test::open_model("qwen3");
  const Model mine = with_walk(plain, {}, Alibi{4});
  expect_near(logits(mine, {.f32 = true}), logits(mine, {.executor = "reference"}));
  expect_same_bits(logits(mine, {}, 1), logits(mine, {}));
  EXPECT_NE(logits(mine, {}), logits(plain, {}));
}

}  // namespace
}  // namespace fourfold
