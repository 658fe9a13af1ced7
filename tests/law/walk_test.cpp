// The property of every walk: `tiles` is ascending, disjoint, within its promise, and holds every visible key.
#include <gtest/gtest.h>

#include <fourfold/any.hpp>
#include <fourfold/load.hpp>
#include <fourfold/walk.hpp>
#include <fourfold/walk_lists.hpp>

#include "random.hpp"

namespace fourfold {
namespace {

using test::Random;

// The optional hooks agree with `tiles` and `visible`.
template <Walk W>
void expect_hooks(const W& walk, Range queries, Random& random, const char* name) {
  if constexpr (requires { walk.span(queries); }) {
    const Range span = walk.span(queries);
    for (Range r : walk.tiles(queries)) ASSERT_EQ(r & span, r) << name;
  }
  if constexpr (requires { walk.every(queries, queries); }) {
    const int first = random.integer(0, 70);
    const Range keys{first, first + random.integer(1, 9)};
    if (!walk.every(queries, keys)) return;
    for (int query = queries.first; query < queries.end; ++query)
      for (int key = keys.first; key < keys.end; ++key)
        ASSERT_TRUE(walk.visible(query, key)) << name << ": query " << query << ", key " << key;
  }
}

// A leaf's bits are what `visible` says of its keys.
template <Walk W>
void expect_leaf(const W& walk, int query, Random& random, const char* name) {
  const int first = random.integer(0, 2) * kLeaf;
  std::uint64_t expected = 0;
  for (int i = 0; i < kLeaf; ++i) expected |= std::uint64_t{walk.visible(query, first + i)} << i;
  ASSERT_EQ(AnyWalk(walk).leaf(query, first), expected) << name << ": query " << query << ", keys from " << first;
}

template <Walk W>
void expect_covers(const W& walk, Random& random, const char* name) {
  for (int round = 0; round < 60; ++round) {
    const int first = random.integer(-6, 70), keys = random.integer(0, 80);
    const Range queries{first, first + random.integer(1, 9)};
    std::vector<bool> covered(keys);
    int end = 0;
    for (Range r : walk.tiles(queries)) {
      ASSERT_FALSE(r.empty()) << name;
      ASSERT_GE(r.first, end) << name << ": ranges must ascend and be disjoint";
      end = r.end;
      for (int key = r.first; key < std::min(r.end, keys); ++key) covered[key] = true;
    }
    for (int query = queries.first; query < queries.end; ++query)
      for (int key = 0; key < keys; ++key)
        ASSERT_TRUE(covered[key] || !walk.visible(query, key)) << name << ": query " << query << ", key " << key;
    expect_hooks(walk, queries, random, name);
    expect_leaf(walk, first, random, name);
  }
}

struct Lists {  // offsets and ascending ids of `rows` random lists
  std::vector<int> offsets{0}, ids;
  Lists(Random& random, int rows, int most) {
    for (int row = 0; row < rows; ++row) {
      for (int id = 0; id < most; ++id)
        if (random.chance(0.3)) ids.push_back(id);
      offsets.push_back(static_cast<int>(ids.size()));
    }
  }
};

TEST(Walk, TilesHoldEveryVisibleKey) {
  Random random(1);
  expect_covers(Full{}, random, "Full");
  expect_covers(Causal{}, random, "Causal");
  for (int size : {1, 2, 7, 64, 1000, kEveryKey}) {
    expect_covers(Window{size}, random, "Window");
    expect_covers(Chunk{size}, random, "Chunk");
    expect_covers(Window{size} & Causal{}, random, "Window & Causal");
  }
  for (int round = 0; round < 10; ++round) {
    const Lists blocks(random, 9, 12), indices(random, 72, 80);
    expect_covers(*BlockList::make(blocks.offsets, blocks.ids, 8, 7), random, "BlockList");
    expect_covers(*IndexList::make(indices.offsets, indices.ids), random, "IndexList");
    expect_covers(*BlockList::make(blocks.offsets, blocks.ids, 8, 7) & Chunk{13}, random, "BlockList & Chunk");
    std::vector<int> parents;
    for (int i = 0; i < 60; ++i) parents.push_back(random.integer(-1, i - 1));
    expect_covers(*TreeMask::make(random.integer(0, 9), parents), random, "TreeMask");
    std::vector<int> pages{3, 0, 7, 1, 2};
    const auto table = *PageTable::make(pages, 16, 8, random.integer(0, 80));
    expect_covers(table, random, "PageTable");
    expect_covers(table & Causal{}, random, "PageTable & Causal");
    expect_covers(Window{20} & table, random, "Window & PageTable");
    expect_covers(*PageTable::make(pages, 16, 8, 75, 20), random, "PageTable, first pages given back");
  }
}

TEST(Walk, RangesMergeAndClip) {
  const auto list = [](const Ranges& all) { return std::vector<Range>(all.begin(), all.end()); };
  EXPECT_EQ(list(ranges({0, 4}, {-20, 8})), (std::vector<Range>{{0, 8}}));
  EXPECT_EQ(list(ranges({0, 4}, {4, 8})), (std::vector<Range>{{0, 8}}));
  EXPECT_EQ(list(ranges({10, 12}, {0, 4})), (std::vector<Range>{{0, 4}, {10, 12}}));
  EXPECT_EQ(list(ranges({10, 12}, {0, 2}, {5, 6}, {1, 11})), (std::vector<Range>{{0, 12}}));
  EXPECT_EQ(list(ranges({3, 3}, {-5, 0})), std::vector<Range>{});
}

TEST(Walk, TilesSkipWhatNobodySees) {
  const auto first = [](const auto& tiles) { return *tiles.begin(); };
  EXPECT_EQ(first(Window{8}.tiles({100, 104})), (Range{93, 104}));
  EXPECT_EQ(first(Chunk{64}.tiles({130, 131})), (Range{128, 131}));
  const std::vector<int> offsets{0, 2}, ids{1, 5};
  std::vector<Range> seen;
  for (Range r : BlockList::make(offsets, ids, 4, 10)->tiles({0, 4})) seen.push_back(r);
  EXPECT_EQ(seen, (std::vector<Range>{{10, 20}, {50, 60}}));
  seen.clear();
  for (Range r : (*BlockList::make(offsets, ids, 4, 10) & Window{3}).tiles({12, 13})) seen.push_back(r);
  EXPECT_EQ(seen, std::vector<Range>{}) << "query 12 is in no block row";
}

TEST(Walk, TreeMaskSeesPrefixSelfAndAncestors) {
  const std::vector<int> parents{-1, 0, 0, 1};  // 0 -> (1 -> 3, 2)
  const auto tree = *TreeMask::make(2, parents);
  const auto sees = [&](int query) {
    std::vector<int> keys;
    for (int key = 0; key < 6; ++key)
      if (tree.visible(query, key)) keys.push_back(key);
    return keys;
  };
  EXPECT_EQ(sees(1), (std::vector{0, 1}));
  EXPECT_EQ(sees(4), (std::vector{0, 1, 2, 4}));
  EXPECT_EQ(sees(5), (std::vector{0, 1, 2, 3, 5}));
}

// Fault A7: nothing beyond the table's capacity or the pool is ever addressed.
TEST(Walk, PageTableRefusesWhatItCannotHold) {
  const std::vector<int> pages{0, 3}, negative{0, -1}, beyond{4, 0};
  EXPECT_TRUE(PageTable::make(pages, 16, 4, 32).ok());
  const auto expect = [](const result<PageTable>& table, const char* part) {
    ASSERT_FALSE(table.ok());
    EXPECT_NE(table.error().message().find(part), std::string::npos) << table.error().message();
  };
  expect(PageTable::make(pages, 16, 4, 33), "length 33 must be in [0, 32]");
  expect(PageTable::make(pages, 16, 4, -1), "length -1");
  expect(PageTable::make(negative, 16, 4, 20), "page id -1 at entry 1");
  expect(PageTable::make(beyond, 16, 4, 20), "page id 4 at entry 0");
  expect(PageTable::make(pages, 0, 4, 0), "page size 0");
  EXPECT_TRUE(PageTable::make(beyond, 16, 4, 32, 16).ok());  // the first page is never looked at
  expect(PageTable::make(negative, 16, 4, 20, 16), "page id -1 at entry 1");
  expect(PageTable::make(pages, 16, 4, 20, 21), "first 21 must be in [0, 20]");
}

TEST(Walk, ListsRefuseWhatIsOutOfOrder) {
  const std::vector<int> good{0, 2}, ids{1, 5}, descending{5, 1}, repeated{1, 1}, wrong{0, 3}, loop{0}, late{-1, 1};
  EXPECT_TRUE(BlockList::make(good, ids, 1, 1).ok());
  EXPECT_FALSE(BlockList::make(good, descending, 1, 1).ok());
  EXPECT_FALSE(BlockList::make(good, repeated, 1, 1).ok());
  EXPECT_FALSE(BlockList::make(wrong, ids, 1, 1).ok());
  EXPECT_FALSE(BlockList::make({}, ids, 1, 1).ok());
  EXPECT_FALSE(BlockList::make(good, ids, 0, 1).ok());
  EXPECT_FALSE(TreeMask::make(0, loop).ok());
  EXPECT_FALSE(TreeMask::make(0, late).ok());
  EXPECT_FALSE(TreeMask::make(-1, {}).ok());
}

TEST(Load, PagedReadsThroughTheTable) {
  std::vector<float> pool(8 * 4 * 3);
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<float>(i);
  const std::vector<int> pages{5, 2};
  const Paged paged{Rows<const float>{pool.data(), 32, 3}, *PageTable::make(pages, 4, 8, 7)};
  static_assert(Matrix<decltype(paged)>);
  EXPECT_EQ(paged.rows, 7);
  EXPECT_EQ(paged(0, 0), 5 * 4 * 3);
  EXPECT_EQ(paged(6, 2), (2 * 4 + 2) * 3 + 2);
}

TEST(Load, EveryStorageIsReadByRowAndColumn) {
  Random random(20);
  for (const StorageInfo& storage : kStorages) {
    const int columns = 2 * storage.block_elements, row_bytes = 2 * storage.block_bytes;
    std::vector<std::uint8_t> bytes(3 * row_bytes);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.integer(0, 59));  // small exponents: no NaN
    const Stored stored{storage.storage, bytes.data(), 3, columns};
    with_storage(storage.storage, [&](auto block) {
      const Contiguous<decltype(block)> load(bytes.data(), 3, columns);
      for (int row = 0; row < 3; ++row)
        for (int column = 0; column < columns; ++column) {
          const std::uint8_t* at = &bytes[row * row_bytes + column / storage.block_elements * storage.block_bytes];
          EXPECT_EQ(load(row, column), decode(storage.storage, at, column % storage.block_elements)) << storage.name;
          EXPECT_EQ(stored(row, column), load(row, column));
        }
      return 0;
    });
  }
}

}  // namespace
}  // namespace fourfold
