#include <gtest/gtest.h>

#include <fourfold/fold.hpp>
#include <fourfold/walk_lists.hpp>

#include "attention_case.hpp"
#include "random.hpp"

namespace fourfold {
namespace {

using test::AttentionCase;
using test::exact_attention;
using test::Random;

// Largest distance of a case's outputs from the exact ones.
template <class See, class Score>
double error_of(const AttentionCase& c, See see, Score score) {
  double error = 0;
  for (int query = 0; query < c.queries; ++query)
    for (int head = 0; head < c.heads; ++head) {
      const int position = c.keys - c.queries + query;
      const auto exact = exact_attention(
          c, query, head, [&](int key) { return see(position, key); },
          [&](double s, int key) { return score(s, position, key, head); });
      for (int d = 0; d < c.width; ++d) {
        const double got = c.out[(query * c.heads + head) * c.width + d];
        EXPECT_TRUE(std::isfinite(got));
        error = std::max(error, std::abs(exact.out[d] - got));
      }
      const double lse = c.lse[query * c.heads + head];
      if (exact.lse == -INFINITY) {
        EXPECT_EQ(lse, -INFINITY);
      } else {
        EXPECT_NEAR(lse, exact.lse, 4e-6 * (1 + std::abs(exact.lse)));
      }
    }
  return error;
}

constexpr float kScale = 0.125f;
const auto kScaled = [](double s, int, int, int) { return s * double(kScale); };

TEST(Fold, ReferenceIsSoftmaxAttention) {
  Random random(10);
  double naive = 0, tiles = 0;
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 70}, {5, 5}, {3, 20}}) {
    AttentionCase c(random, queries, keys, 6, 2, 32, 24);
    const Fold causal{Causal{}, Scale{kScale}, OnlineSoftmax{}};
    ASSERT_TRUE(c.run(causal, reference).ok());
    const auto see = [](int q, int k) { return k <= q; };
    EXPECT_LE(error_of(c, see, kScaled), 1.3e-7) << "double, but for the stored float";
    ASSERT_TRUE(c.run(causal, reference_f32).ok());
    naive = std::max(naive, error_of(c, see, kScaled));
    ASSERT_TRUE(c.run(causal, Team{2}).ok());
    tiles = std::max(tiles, error_of(c, see, kScaled));
  }
  EXPECT_LE(naive, 2e-6);
  EXPECT_LE(tiles, 2 * naive);
}

template <Walk W>
void expect_team_is_reference(const W& walk, const char* name) {
  Random random(11);
  for (const auto& [queries, keys] : {std::pair{70, 70}, {1, 1500}, {9, 130}, {4, 2}}) {
    AttentionCase c(random, queries, keys, 4, 2, 16, 20), want = c;
    const Fold fold{walk, Scale{kScale}, OnlineSoftmax{}};
    ASSERT_TRUE(c.run(fold, Team{2}).ok());
    ASSERT_TRUE(want.run(fold, reference).ok());
    for (std::size_t i = 0; i < c.out.size(); ++i) ASSERT_NEAR(c.out[i], want.out[i], 2e-6) << name << " at " << i;
    for (std::size_t i = 0; i < c.lse.size(); ++i)
      ASSERT_TRUE(c.lse[i] == want.lse[i] || std::abs(c.lse[i] - want.lse[i]) < 1e-5f) << name << " at " << i;
  }
}

TEST(Fold, TilesAgreeWithTheDefinitionForEveryWalk) {
  expect_team_is_reference(Full{}, "Full");
  expect_team_is_reference(Causal{}, "Causal");
  expect_team_is_reference(Window{33}, "Window");
  expect_team_is_reference(Chunk{50}, "Chunk");
  std::vector<int> offsets{0}, ids, parents, pages;
  for (int row = 0; row < 300; ++row) {
    for (int id = row % 3; id < 300; id += 1 + row % 5) ids.push_back(id);
    offsets.push_back(static_cast<int>(ids.size()));
    parents.push_back(row / 2 - 1);
  }
  for (int i = 0; i < 100; ++i) pages.push_back(99 - i);
  expect_team_is_reference(*BlockList::make(offsets, ids, 8, 8), "BlockList");
  expect_team_is_reference(*IndexList::make(offsets, ids), "IndexList");
  expect_team_is_reference(*TreeMask::make(40, parents), "TreeMask");
  expect_team_is_reference(*PageTable::make(pages, 16, 100, 1501) & Causal{}, "PageTable & Causal");
}

TEST(Fold, ScoresApplyPerHeadAndInOrder) {
  Random random(12);
  AttentionCase c(random, 12, 12, 6, 3, 16, 16);
  const auto table = random.normals(6 * 12 * 12);
  const Fold fold{Causal{}, Scale{0.5f} | SoftCap{3} | Alibi{6} | Bias{table.data(), 12, 144}, OnlineSoftmax{}};
  const double slopes[] = {0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3};  // 4 heads' slopes, then 8 heads' odd ones
  const auto score = [&](double s, int query, int key, int head) {
    return 3 * std::tanh(0.5 * s / 3) - slopes[head] * (query - key) + double(table[(head * 12 + query) * 12 + key]);
  };
  const auto see = [](int q, int k) { return k <= q; };
  ASSERT_TRUE(c.run(fold, reference).ok());
  EXPECT_LE(error_of(c, see, score), 2.4e-7);
  ASSERT_TRUE(c.run(fold, Team{1}).ok());
  EXPECT_LE(error_of(c, see, score), 2e-6);
}

TEST(Fold, SinkJoinsOnceHoweverTheFoldIsSplit) {
  Random random(13);
  AttentionCase c(random, 2, 2500, 4, 4, 8, 8);
  const std::vector<float> sinks{1.f, -2.f, 9.f, -kInfinity<float>};
  const Fold fold{Full{}, Scale{kScale}, OnlineSoftmax{sinks}};
  const auto check = [&](double bound) {
    for (int head = 0; head < 4; ++head) {
      const auto exact = exact_attention(
          c, 1, head, [](int) { return true; }, [](double s, int) { return s * double(kScale); }, double(sinks[head]));
      EXPECT_NEAR(c.lse[4 + head], exact.lse, 3e-6 * (1 + std::abs(exact.lse)));
      for (int d = 0; d < 8; ++d) EXPECT_NEAR(c.out[(4 + head) * 8 + d], exact.out[d], bound);
    }
  };
  ASSERT_TRUE(c.run(fold, reference).ok());
  check(1.2e-7);
  ASSERT_TRUE(c.run(fold, Team{2}).ok());  // three blocks of 1024 keys
  check(5e-7);
}

// Fault A1: packed sequences, some empty, equal each sequence alone.
TEST(Fold, PackedSequencesEqualEachAlone) {
  Random random(14);
  AttentionCase all(random, 2, 8, 9, 3, 64, 64);
  const std::vector<int> queries{0, 0, 1, 1, 2}, keys{0, 0, 3, 3, 8};
  const Fold fold{Causal{}, Scale{kScale}, OnlineSoftmax{}};
  const auto run_all = [&](const auto& executor) {
    return fold.on(executor).attend(all.q_view(), all.k_view(), all.v_view(), all.out_view(), all.lse_view(),
                                    {queries, keys});
  };
  const auto check = [&](const auto& executor) {
    ASSERT_TRUE(run_all(executor).ok());
    for (int s = 0; s < 4; ++s) {
      const int n = queries[s + 1] - queries[s], m = keys[s + 1] - keys[s];
      AttentionCase one(random, n, m, 9, 3, 64, 64);
      std::copy_n(all.q.begin() + queries[s] * 9 * 64, one.q.size(), one.q.begin());
      std::copy_n(all.k.begin() + keys[s] * 3 * 64, one.k.size(), one.k.begin());
      std::copy_n(all.v.begin() + keys[s] * 3 * 64, one.v.size(), one.v.begin());
      ASSERT_TRUE(one.run(fold, executor).ok());
      for (std::size_t i = 0; i < one.out.size(); ++i) ASSERT_EQ(one.out[i], all.out[queries[s] * 9 * 64 + i]);
      for (std::size_t i = 0; i < one.lse.size(); ++i) ASSERT_EQ(one.lse[i], all.lse[queries[s] * 9 + i]);
    }
  };
  check(reference);
  check(Team{2});
}

// Fault A5: a row that sees nothing is exactly 0 with lse -infinity, and the others do not notice.
TEST(Fold, RowsThatSeeNothingAreZero) {
  Random random(15);
  const auto check = [&](const auto& fold, const auto& executor, int blind) {
    AttentionCase c(random, 5, 3, 2, 1, 8, 8);
    ASSERT_TRUE(c.run(fold, executor).ok());
    for (int query = 0; query < 5; ++query)
      for (int i = 0; i < 16; ++i) {
        const float x = c.out[query * 16 + i], lse = c.lse[query * 2 + i / 8];
        EXPECT_EQ(x == 0.f, query < blind) << query;
        EXPECT_EQ(lse == -kInfinity<float>, query < blind) << query;
        EXPECT_TRUE(std::isfinite(x));
      }
  };
  struct Nothing {
    constexpr bool visible(int, int) const { return false; }
    constexpr Ranges tiles(Range) const { return ranges({0, kEveryKey}); }
  };
  const std::vector<float> mask(5 * 3, -kInfinity<float>);
  check(Fold{Causal{}, Plain{}, OnlineSoftmax{}}, reference, 2);
  check(Fold{Causal{}, Plain{}, OnlineSoftmax{}}, Team{1}, 2);
  check(Fold{Window{0}, Plain{}, OnlineSoftmax{}}, reference, 5);
  check(Fold{Window{0}, Plain{}, OnlineSoftmax{}}, Team{1}, 5);
  check(Fold{Nothing{}, Plain{}, OnlineSoftmax{}}, Team{1}, 5);
  check(Fold{Full{}, Bias{mask.data() + 6, 3}, OnlineSoftmax{}}, reference, 5);
  check(Fold{Full{}, Bias{mask.data() + 6, 3}, OnlineSoftmax{}}, Team{1}, 5);
}

// Fault A10: a row's bits do not depend on threads, batch-mates, or how many neighbours it is computed with.
TEST(Fold, TeamKeepsBitsForAnyThreadsAndBatch) {
  Random random(16);
  constexpr int kKeys = 2300, kHeads = 4, kDim = 16;
  AttentionCase all(random, 40, kKeys, kHeads, 2, kDim, kDim);
  const Fold fold{Causal{}, Scale{kScale}, OnlineSoftmax{}};
  ASSERT_TRUE(all.run(fold, Team{1}).ok());
  const auto want = all.out, lse = all.lse;
  for (int threads : {2, 7}) {
    ASSERT_TRUE(all.run(fold, Team{threads}).ok());
    EXPECT_EQ(all.out, want) << threads;
    EXPECT_EQ(all.lse, lse) << threads;
  }
  for (int query : {0, 13, 39}) {  // alone, as in decoding: the cache ends at its own position
    const int keys = kKeys - 40 + query + 1;
    AttentionCase one(random, 1, keys, kHeads, 2, kDim, kDim);
    std::copy_n(all.q.begin() + query * kHeads * kDim, one.q.size(), one.q.begin());
    std::copy_n(all.k.begin(), one.k.size(), one.k.begin());
    std::copy_n(all.v.begin(), one.v.size(), one.v.begin());
    ASSERT_TRUE(one.run(fold, Team{2}).ok());
    for (std::size_t i = 0; i < one.out.size(); ++i) ASSERT_EQ(one.out[i], want[query * kHeads * kDim + i]);
    for (int batch : {2, 8, 33}) {  // the same sequence beside others
      AttentionCase many(random, batch, keys * batch, kHeads, 2, kDim, kDim);
      std::vector<int> queries, offsets;
      for (int s = 0; s <= batch; ++s) queries.push_back(s), offsets.push_back(s * keys);
      std::copy(one.q.begin(), one.q.end(), many.q.end() - one.q.size());
      std::copy(one.k.begin(), one.k.end(), many.k.end() - one.k.size());
      std::copy(one.v.begin(), one.v.end(), many.v.end() - one.v.size());
      ASSERT_TRUE(fold.on(Team{2})
                      .attend(many.q_view(), many.k_view(), many.v_view(), many.out_view(), {}, {queries, offsets})
                      .ok());
      EXPECT_TRUE(std::equal(one.out.begin(), one.out.end(), many.out.end() - one.out.size())) << batch;
    }
  }
}

TEST(Fold, PagedAndQuantisedKeysReadAsStored) {
  Random random(17);
  AttentionCase c(random, 3, 40, 2, 1, 32, 32), want = c;
  const std::vector<int> pages{4, 1, 3};
  const auto table = *PageTable::make(pages, 16, 5, 40);
  std::vector<float> k_pool(5 * 16 * 32, kNaN<float>), v_pool = k_pool;
  std::vector<std::uint8_t> q8(40 * 34);
  for (int key = 0; key < 40; ++key) {
    blocks::encode_q8_0(&want.k[key * 32], &q8[key * 34]);
    for (int d = 0; d < 32; ++d) want.k[key * 32 + d] = blocks::Q8_0::at(&q8[key * 34], d);
    std::copy_n(&want.k[key * 32], 32, &k_pool[table.row(key) * 32]);
    std::copy_n(&want.v[key * 32], 32, &v_pool[table.row(key) * 32]);
  }
  const Fold plain{Causal{}, Scale{kScale}, OnlineSoftmax{}};
  const Fold paged{table & Causal{}, Scale{kScale}, OnlineSoftmax{}};
  const Paged k{Rows<const float>{k_pool.data(), 80, 32}, table};
  const Paged v{Rows<const float>{v_pool.data(), 80, 32}, table};
  const Contiguous<blocks::Q8_0> packed(q8.data(), 40, 32);
  const auto check = [&](const auto& executor) {
    ASSERT_TRUE(want.run(plain, executor).ok());
    ASSERT_TRUE(paged.on(executor).attend(c.q_view(), Heads{k, 1}, Heads{v, 1}, c.out_view()).ok());
    EXPECT_EQ(c.out, want.out);
    ASSERT_TRUE(plain.on(executor).attend(c.q_view(), Heads{packed, 1}, c.v_view(), c.out_view()).ok());
    EXPECT_EQ(c.out, want.out);
  };
  check(reference);
  check(Team{2});
}

TEST(Fold, MatrixProductsAndReductions) {
  Random random(18);
  const auto a = random.normals(3 * 50), b = random.normals(70 * 50), bias = random.normals(70);
  std::vector<float> out(3 * 70);
  const Rows<const float> x{a.data(), 3, 50}, w{b.data(), 70, 50};
  const Fold product{Full{}, Plain{}, Sum{}, AddBias{bias.data()}};
  const auto check = [&](const auto& executor, double bound) {
    ASSERT_TRUE(product.on(executor).multiply(x, w, Rows{out.data(), 3, 70}).ok());
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 70; ++column) {
        double want = double(bias[column]);
        for (int i = 0; i < 50; ++i) want += double(a[row * 50 + i]) * double(b[column * 50 + i]);
        EXPECT_NEAR(out[row * 70 + column], want, bound);
      }
  };
  check(reference, 1e-6);
  check(reference_f32, 1e-5);
  check(Team{2}, 1e-5);

  float lse[3], most[3];
  const Fold logsumexp{Full{}, LogSumExp{}};
  const Fold largest{Full{}, Max{}};
  ASSERT_TRUE(logsumexp.on(reference).reduce(x, lse).ok());
  ASSERT_TRUE(largest.on(Team{2}).reduce(x, most).ok());
  float doubled[3];
  ASSERT_TRUE((Fold{Full{}, Plain{}, Max{}, Scale{2}}.on(Team{2}).reduce(x, doubled).ok()));
  for (int row = 0; row < 3; ++row) {
    double sum = 0;
    for (int i = 0; i < 50; ++i) sum += std::exp(double(a[row * 50 + i]));
    EXPECT_NEAR(lse[row], std::log(sum), 1e-6);
    EXPECT_EQ(doubled[row], 2 * most[row]) << "the epilogue of a reduction";
    EXPECT_EQ(most[row], *std::max_element(&a[row * 50], &a[row * 50] + 50));
  }
}

TEST(Fold, EmptyAndMismatchedOperands) {
  Random random(19);
  AttentionCase none(random, 0, 0, 2, 1, 8, 8), c(random, 2, 3, 3, 1, 8, 8);
  const Fold fold{Causal{}, Plain{}, OnlineSoftmax{}};
  EXPECT_TRUE(none.run(fold, reference).ok());
  EXPECT_TRUE(none.run(fold, Team{2}).ok());
  const std::vector<int> queries{0, 2}, descending{0, 2, 1, 3}, short_keys{0, 2};
  const auto message = [&](const Sequences& sequences) {
    return fold.on(reference).attend(c.q_view(), c.k_view(), c.v_view(), c.out_view(), {}, sequences).message();
  };
  EXPECT_NE(message({queries, short_keys}).find("last offset is 2, must be the number of tokens, 3"),
            std::string::npos);
  EXPECT_NE(message({queries, descending}).find("key offsets is 4"), std::string::npos);
  EXPECT_NE(message({descending, descending}).find("must not descend"), std::string::npos);
  const Heads two{Rows<const float>{c.k.data(), 3, 8}, 2};
  EXPECT_NE(fold.on(Team{1}).attend(c.q_view(), two, two, c.out_view()).message().find("3 query heads are no multiple"),
            std::string::npos);
  EXPECT_FALSE((Fold{Full{}, Sum{}}.on(reference).multiply(Rows{c.q.data(), 2, 3}, Rows{c.k.data(), 2, 4},
                                                           Rows{c.out.data(), 2, 2}))
                   .ok());
}

}  // namespace
}  // namespace fourfold
