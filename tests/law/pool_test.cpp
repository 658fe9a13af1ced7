// The library's own thread pool as an executor of the moves: a ParallelFor is all it takes.
#include "cpu/pool.hpp"

#include <gtest/gtest.h>

#include "attention_case.hpp"

namespace fourfold {
namespace {

TEST(FoldOnPool, KeepsTheBitsOfATeam) {
  test::Random random(60);
  test::AttentionCase c(random, 20, 1500, 4, 2, 16, 16), want = c;
  const Fold fold{Causal{}, Scale{0.25f}, OnlineSoftmax{}};
  ASSERT_TRUE(want.run(fold, Team{1}).ok());
  const auto pool = Pool::create(3);
  ASSERT_TRUE(pool.ok());
  const auto on_pool = [&](int n, auto&& f) {
    const status done = (*pool)->run([&](Worker& worker) {
      for (int i = worker.index; i < n; i += worker.count) f(i);
    });
    ASSERT_TRUE(done.ok());
  };
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_TRUE(c.run(fold, on_pool).ok());
    EXPECT_EQ(c.out, want.out);
    EXPECT_EQ(c.lse, want.lse);
  }
}

}  // namespace
}  // namespace fourfold
