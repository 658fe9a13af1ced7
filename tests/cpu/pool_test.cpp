// Pool, Worker::barrier and ChunkQueue: every count, every order, oversubscribed, parked, misused.
#include "cpu/pool.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace fourfold {
namespace {

std::unique_ptr<Pool> make(int threads) {
  auto pool = Pool::create(threads);
  EXPECT_TRUE(pool.ok()) << pool.error().message();
  return std::move(pool).value();
}

class PoolOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, PoolOf, testing::Values(1, 2, 3, 4, 5, 7, 8, 16));

TEST_P(PoolOf, RunsEachWorkerOnce) {
  const auto pool = make(GetParam());
  EXPECT_EQ(pool->threads(), GetParam());
  std::vector<int> calls(static_cast<std::size_t>(GetParam()), 0);
  const auto caller = std::this_thread::get_id();
  for (int round = 1; round <= 20; ++round) {
    ASSERT_TRUE(pool->run([&](Worker& w) {
      EXPECT_EQ(w.count, GetParam());
      EXPECT_EQ(w.index == 0, std::this_thread::get_id() == caller);
      ++calls[static_cast<std::size_t>(w.index)];
    }));
    for (const int n : calls) EXPECT_EQ(n, round);
  }
}

// Plain (unsynchronised) data passes through the barrier: a missing one fails the sums, and the thread sanitizer.
TEST_P(PoolOf, BarrierSeparatesPhases) {
  const auto pool = make(GetParam());
  const auto n = static_cast<std::size_t>(GetParam());
  constexpr int kPhases = 300;
  std::vector<int> now(n, 0), next(n, 0);
  ASSERT_TRUE(pool->run([&](Worker& w) {
    const auto i = static_cast<std::size_t>(w.index);
    for (int phase = 0; phase < kPhases; ++phase) {
      next[i] = 1 + *std::max_element(now.begin(), now.end());
      w.barrier();
      now[i] = *std::min_element(next.begin(), next.end());
      w.barrier();
    }
  }));
  EXPECT_EQ(now, std::vector<int>(n, kPhases));
}

TEST_P(PoolOf, BarrierWaitsForTheLast) {
  const auto pool = make(GetParam());
  for (int late = 0; late < GetParam(); ++late) {
    std::atomic<int> arrived{0};
    ASSERT_TRUE(pool->run([&](Worker& w) {
      if (w.index == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      ++arrived;
      w.barrier();
      EXPECT_EQ(arrived.load(), w.count);
    }));
  }
}

TEST_P(PoolOf, IdleWorkIsCalledUntilItEnds) {
  const auto pool = make(GetParam());
  std::vector<int> calls(static_cast<std::size_t>(GetParam()), 0);
  ASSERT_TRUE(pool->run([&](Worker& w) {
    int& mine = calls[static_cast<std::size_t>(w.index)];
    if (w.index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    w.barrier([&] { return ++mine < 5; });
  }));
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_LE(calls[i], 5);
  EXPECT_EQ(*std::max_element(calls.begin(), calls.end()), GetParam() > 1 ? 5 : 0);
}

TEST_P(PoolOf, ManyShortRuns) {
  const auto pool = make(GetParam());
  std::vector<int> counts(static_cast<std::size_t>(GetParam()) * 64, 0);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(pool->run([&](Worker& w) { ++counts[static_cast<std::size_t>(w.index) * 64]; }));
  }
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 500 * GetParam());
}

TEST_P(PoolOf, WakesFromParking) {
  const auto pool = make(GetParam());
  for (int i = 0; i < 30; ++i) {
    std::atomic<int> ran{0};
    ASSERT_TRUE(pool->run([&](Worker&) { ++ran; }));
    EXPECT_EQ(ran.load(), GetParam());
    std::this_thread::sleep_for(std::chrono::microseconds(100 * i));  // around the moment of parking, and past it
  }
}

TEST_P(PoolOf, SharesCoverEverythingOnce) {
  const auto pool = make(GetParam());
  for (const std::int64_t n : {0, 1, 15, 16, 17, 1000}) {
    for (const std::int64_t grain : {1, 16}) {
      std::vector<Share> shares(static_cast<std::size_t>(GetParam()));
      ASSERT_TRUE(pool->run([&](Worker& w) { shares[static_cast<std::size_t>(w.index)] = w.share(n, grain); }));
      std::int64_t at = 0;
      for (const Share& s : shares) {
        EXPECT_EQ(s.begin, at);
        EXPECT_TRUE(s.begin % grain == 0 || s.begin == n);
        at = s.end;
      }
      EXPECT_EQ(at, n);
    }
  }
}

TEST_P(PoolOf, QueueGivesEachChunkOnce) {
  const auto pool = make(GetParam());
  ChunkQueue queue(GetParam());
  for (int round = 0; round < 3; ++round) {  // the queue is never reset, across phases and runs
    std::vector<std::vector<int>> hits;
    for (const std::size_t n : {0, 1, 2, 7, 64, 100}) hits.emplace_back(n, 0);
    ASSERT_TRUE(pool->run([&](Worker& w) {
      for (auto& phase : hits) {
        queue.each(w, static_cast<std::int64_t>(phase.size()), [&](std::int64_t i) {
          ++phase[static_cast<std::size_t>(i)];
          if (w.index == 0) std::this_thread::yield();
        });
        w.barrier();
      }
    }));
    for (const auto& phase : hits) EXPECT_EQ(phase, std::vector<int>(phase.size(), 1));
  }
}

TEST(Pool, QueueLetsOthersHelp) {
  const auto pool = make(2);
  ChunkQueue queue(2);
  std::atomic<int> done{0};
  ASSERT_TRUE(pool->run([&](Worker& w) {
    // Worker 0 holds its first chunk until everything else is done, which only worker 1 can do.
    queue.each(w, 20, [&](std::int64_t) {
      while (w.index == 0 && done.load() < 19) std::this_thread::yield();
      ++done;
    });
  }));
  EXPECT_EQ(done.load(), 20);
}

TEST(Pool, RefusesImpossibleCounts) {
  for (const int threads : {0, -1, Pool::kMaxThreads + 1}) {
    const auto pool = Pool::create(threads);
    ASSERT_FALSE(pool.ok());
    EXPECT_EQ(pool.error().code(), Code::invalid_argument);
    EXPECT_NE(pool.error().message().find(std::to_string(threads)), std::string::npos);
  }
}

TEST(Pool, RefusesNestedRuns) {
  for (const int threads : {1, 3}) {
    const auto pool = make(threads);
    std::atomic<int> refused{0};
    ASSERT_TRUE(pool->run([&](Worker&) { refused += pool->run([](Worker&) {}).code() == Code::invalid_argument; }));
    EXPECT_EQ(refused.load(), threads);
    EXPECT_TRUE(pool->run([](Worker&) {}));
  }
}

TEST(Pool, TwoPoolsAtOnce) {
  const auto a = make(3), b = make(2);
  std::atomic<int> inner{0};
  const auto repeat = [](Pool& pool, std::atomic<int>& count) {
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(pool.run([&](Worker& w) {
        ++count;
        w.barrier();
      }));
    }
  };
  std::atomic<int> first{0}, second{0};
  std::thread other([&] { repeat(*b, second); });
  repeat(*a, first);
  other.join();
  EXPECT_EQ(first.load(), 150);
  EXPECT_EQ(second.load(), 100);
  // A pool may run inside another pool's program.
  ASSERT_TRUE(a->run([&](Worker& w) { EXPECT_TRUE(w.index != 1 || b->run([&](Worker&) { ++inner; })); }));
  EXPECT_EQ(inner.load(), 2);
}

TEST(Pool, ManyPoolsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    const auto pool = make(1 + i % 4);
    EXPECT_TRUE(i % 2 != 0 || pool->run([](Worker& w) { w.barrier(); }));
  }
}

TEST(Pool, FarMoreThreadsThanProcessors) {
  const auto pool = make(64);
  std::atomic<int> sum{0};
  ASSERT_TRUE(pool->run([&](Worker& w) {
    for (int phase = 0; phase < 20; ++phase) {
      ++sum;
      w.barrier();
    }
  }));
  EXPECT_EQ(sum.load(), 64 * 20);
}

}  // namespace
}  // namespace fourfold
