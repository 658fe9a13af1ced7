// Pages under random forks, appends, rewinds and ends: every sequence reads what it wrote itself, no page leaks, and
// what a table cannot hold is an error.
#include "cpu/team/pages.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <map>
#include <thread>

#include "support/reject.hpp"

namespace fourfold::team {
namespace {

PageShape numbers(int page, int window, int context = 48) {
  return {context, page, window, 8, page, static_cast<std::size_t>(page) * sizeof(int)};
}

int& number(const PageList& pages, int position) {
  return reinterpret_cast<int*>(pages.part(position))[position % pages.shape().part];
}

// A list, and the numbers that it should hold.
struct Sequence {
  PageList pages;
  std::vector<int> written;

  void append(int count, int& next) {
    const int position = static_cast<int>(written.size());
    const status ready = pages.prepare(position, count);
    RC_ASSERT(ready.ok());
    for (int p = position; p < position + count; ++p) {
      number(pages, p) = next;
      written.push_back(next++);
    }
  }
  void rewind(int position) {
    const bool held = pages.rewind(position);
    RC_ASSERT(pages.shape().window > 0 || held);
    written.resize(held ? static_cast<std::size_t>(position) : 0);
    RC_ASSERT(pages.end() == static_cast<int>(written.size()));
  }
  void check() const {
    const auto table = pages.table();
    RC_ASSERT(table.ok());
    const int end = pages.end(), oldest = pages.shape().oldest_needed(end);
    for (int p = oldest; p < end; ++p) {
      RC_ASSERT(table->visible(end, p));
      RC_ASSERT(number(pages, p) == written[static_cast<std::size_t>(p)]);
    }
    RC_ASSERT(pages.held_bytes() <= static_cast<std::size_t>(pages.shape().most_pages()) * pages.shape().page_bytes());
  }
};

// Pages that any of the sequences holds, by where they lie.
std::size_t distinct(const std::vector<Sequence>& all) {
  std::map<const std::uint8_t*, int> seen;
  for (const Sequence& s : all)
    for (int p = 0; p < s.pages.shape().context; p += s.pages.shape().page)
      if (const auto* at = s.pages.part(p)) ++seen[at];
  return seen.size();
}

TEST(Pages, SequencesNeverSeeEachOthersWritesAndNoPageLeaks) {
  EXPECT_TRUE(rc::check([] {
    const PageShape shape = numbers(*rc::gen::element(1, 2, 4, 8, 16), *rc::gen::element(0, 1, 5, 12));
    std::vector<Sequence> all;
    all.push_back({std::move(PageList::create(shape)).value(), {}});
    int next = 1;
    for (int turn = *rc::gen::inRange(0, 60); turn > 0; --turn) {
      const auto which = *rc::gen::inRange<std::size_t>(0, all.size());
      const int size = static_cast<int>(all[which].written.size());
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          if (all.size() < 5) all.push_back({std::move(all[which].pages.fork()).value(), all[which].written});
          break;
        case 1:
          all[which].rewind(*rc::gen::inRange(0, size + 1));
          break;
        case 2:
          if (all.size() > 1) {
            std::vector<Sequence> left;
            for (std::size_t i = 0; i < all.size(); ++i)
              if (i != which) left.push_back(std::move(all[i]));
            all = std::move(left);
          }
          break;
        default:
          all[which].append(*rc::gen::inRange(0, std::min(shape.batch, shape.context - size) + 1), next);
      }
      for (const Sequence& s : all) s.check();
      RC_ASSERT(static_cast<std::size_t>(all[0].pages.pool().held()) == distinct(all));
    }
  }));
}

TEST(Pages, ForksOfSeveralThreadsShareAPool) {
  const auto root = std::move(PageList::create(numbers(4, 0))).value();
  std::vector<PageList> forks;
  for (int i = 0; i < 4; ++i) forks.push_back(std::move(root.fork()).value());
  std::vector<std::thread> threads;
  std::vector<int> faults(forks.size());
  for (std::size_t i = 0; i < forks.size(); ++i)
    threads.emplace_back([&, i] {
      PageList& mine = forks[i];
      for (int round = 0; round < 500; ++round) {
        const int count = 1 + (round * 7 + static_cast<int>(i)) % 8;
        if (mine.end() + count > mine.shape().context) mine.rewind(round % 5);
        const int first = mine.end();
        if (!mine.prepare(first, count).ok()) ++faults[i];
        for (int p = first; p < first + count; ++p) number(mine, p) = static_cast<int>(i) * 1000 + p;
        for (int p = 5; p < first + count; ++p) faults[i] += number(mine, p) != static_cast<int>(i) * 1000 + p;
      }
    });
  for (auto& thread : threads) thread.join();
  for (const int count : faults) EXPECT_EQ(count, 0);
  forks.clear();
  EXPECT_EQ(root.pool().held(), 0);
}

TEST(Pages, WhatATableCannotHoldIsRefused) {
  auto pages = std::move(PageList::create(numbers(16, 0, 32))).value();
  EXPECT_REJECT(pages.prepare(0, 33), Code::resource, "positions 0 to 32 do not fit: its pages hold 32");
  EXPECT_REJECT(pages.prepare(-1, 1), Code::resource, "positions -1 to -1 do not fit");
  EXPECT_REJECT(pages.prepare(3, 1), Code::invalid_argument, "position 3 does not follow on the 0 that are held");
  EXPECT_EQ(pages.held_bytes(), 0u);
  EXPECT_TRUE(pages.prepare(0, 32).ok());
  EXPECT_REJECT(pages.prepare(32, 1), Code::resource, "positions 32 to 32 do not fit");
}

TEST(Pages, AWindowKeepsWhatItNeedsAndNoMore) {
  auto pages = std::move(PageList::create(numbers(4, 10, 1 << 20))).value();
  for (int p = 0; p + 8 < 1000; p += 8) {
    ASSERT_TRUE(pages.prepare(p, 8).ok());
    EXPECT_LE(pages.oldest(), std::max(0, p - 9));
    EXPECT_LE(pages.held_bytes(), 6u * 4 * sizeof(int));  // 9 before, 8 now, and what fills pages up
  }
  EXPECT_TRUE(pages.rewind(984));   // where the last batch began
  EXPECT_FALSE(pages.rewind(900));  // long given back: holds nothing now
  EXPECT_EQ(pages.end(), 0);
  EXPECT_EQ(pages.held_bytes(), 0u);
}

}  // namespace
}  // namespace fourfold::team
