// Attention whose keys lie with several owners: the bits of one fold over all of them, in whatever order parts arrive.
#include <gtest/gtest.h>

#include <algorithm>
#include <fourfold/split.hpp>
#include <numeric>

#include "attention_case.hpp"

namespace fourfold::test {
namespace {

constexpr int kQueries = 5, kKeys = 4500, kHeads = 6, kKvHeads = 2, kDim = 20, kWidth = 12;

// Owner r holds the keys [bounds[r], bounds[r + 1]); parts arrive in the order given.
template <class F>
std::vector<float> over_owners(const F& fold, const AttentionCase& c, const std::vector<int>& bounds,
                               const std::vector<int>& order, std::vector<float>* lse = nullptr) {
  std::vector<SplitAttend<F>> owners;
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
    owners.emplace_back(fold, kQueries, kHeads, kWidth);
    const int first = bounds[r], count = bounds[r + 1] - first;
    const Heads<Rows<const float>> k{{c.k.data() + first * kKvHeads * kDim, count, kKvHeads * kDim}, kKvHeads};
    const Heads<Rows<const float>> v{{c.v.data() + first * kKvHeads * kWidth, count, kKvHeads * kWidth}, kKvHeads};
    const status done = owners.back().absorb(c.q_view(), k, v, first, kKeys - kQueries);
    EXPECT_TRUE(done.ok()) << done.message();
  }
  SplitAttend<F> all(fold, kQueries, kHeads, kWidth);
  for (int r : order) all.take(std::move(owners[static_cast<std::size_t>(r)]));
  std::vector<float> out(c.out.size(), -7.f), sums(c.lse.size(), -7.f);
  all.finish(Heads{Rows{out.data(), kQueries, kHeads * kWidth}, kHeads}, {sums.data(), kQueries, kHeads});
  if (lse) *lse = sums;
  return out;
}

template <class F>
void expect_bits_of_one_fold(const F& fold) {
  Random random(3);
  AttentionCase c(random, kQueries, kKeys, kHeads, kKvHeads, kDim, kWidth);
  ASSERT_TRUE(c.run(fold, Team{2}).ok());
  for (const std::vector<int>& bounds :
       {std::vector{0, kKeys}, {0, 1024, 2048, 3072, 4096, kKeys}, {0, 3072, kKeys}, {0, 2048, 4096, kKeys}}) {
    std::vector<int> order(bounds.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t turn = 0; turn < order.size(); ++turn) {  // a ring starts anywhere
      std::vector<float> lse;
      EXPECT_EQ(over_owners(fold, c, bounds, order, &lse), c.out);
      EXPECT_EQ(lse, c.lse);
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
  }
}

TEST(Split, HasTheBitsOfOneFold) {
  expect_bits_of_one_fold(Fold{Causal{}, Scale{0.2f}, OnlineSoftmax{}});
  expect_bits_of_one_fold(Fold{Window{1500}, Scale{0.2f} | SoftCap{8.f}, OnlineSoftmax{}});
}

TEST(Split, SinksJoinOnce) {
  const std::vector<float> sinks{0.5f, -1.f, 3.f, 0.f, 2.f, 9.f};
  expect_bits_of_one_fold(Fold{Causal{}, Scale{0.2f}, OnlineSoftmax{std::span<const float>(sinks)}});
}

TEST(Split, NobodysKeysGiveZero) {
  const Fold fold{Causal{}, Scale{0.2f}, OnlineSoftmax{}};
  SplitAttend none(fold, 1, 1, 2);
  std::vector<float> out(2, 7.f), lse(1, 7.f);
  none.finish(Heads{Rows{out.data(), 1, 2}, 1}, {lse.data(), 1, 1});
  EXPECT_EQ(out, (std::vector<float>{0, 0}));
  EXPECT_EQ(lse[0], -INFINITY);
}

TEST(Split, RefusesKeysThatBeginInsideABlock) {
  const Fold fold{Causal{}, Scale{0.2f}, OnlineSoftmax{}};
  SplitAttend one(fold, 1, 1, 2);
  const float numbers[2] = {};
  const Heads<Rows<const float>> x{{numbers, 1, 2}, 1};
  EXPECT_NE(one.absorb(x, x, x, 100, 0).message().find("multiple of 1024"), std::string::npos);
  EXPECT_TRUE(one.absorb(x, x, x, 1024, 0).ok());
}

}  // namespace
}  // namespace fourfold::test
