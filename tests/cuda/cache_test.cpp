// The cache layout is a bijection onto its bytes, and has the properties that copies and matrix reads rely on.
#include "cuda/cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace fourfold::cuda {
namespace {

class CacheLayoutTest : public testing::TestWithParam<CacheLayout> {};

TEST_P(CacheLayoutTest, PutsEveryElementIntoItsOwnPlace) {
  const CacheLayout layout = GetParam();
  std::vector<bool> taken(static_cast<std::size_t>(layout.bytes()));
  for (int head = 0; head < layout.kv_heads; ++head)
    for (int position = 0; position < layout.positions; ++position)
      for (Part part : {Part::key, Part::value})
        for (int dim = 0; dim < layout.head_dim; ++dim) {
          const std::int64_t at = layout.place(head, position, part, dim);
          ASSERT_GE(at, 0);
          ASSERT_LE(at + layout.element_bytes, layout.bytes());
          ASSERT_EQ(at % layout.element_bytes, 0);
          ASSERT_FALSE(taken[static_cast<std::size_t>(at)]) << head << ' ' << position << ' ' << dim;
          taken[static_cast<std::size_t>(at)] = true;
        }
}

TEST_P(CacheLayoutTest, KeepsSixteenByteChunksWhole) {
  const CacheLayout layout = GetParam();
  const int chunk = 16 / layout.element_bytes;
  for (int row = 0; row < kLeafKeys; ++row)
    for (int dim = 0; dim < layout.stored_dim(); ++dim)
      ASSERT_EQ(
          CacheLayout::within(row, dim, layout.element_bytes),
          CacheLayout::within(row, dim / chunk * chunk, layout.element_bytes) + dim % chunk * layout.element_bytes);
}

TEST_P(CacheLayoutTest, ReadsEightRowsOfAColumnWithoutBankConflicts) {
  const CacheLayout layout = GetParam();
  for (int row = 0; row < kLeafKeys; row += 8)
    for (int dim = 0; dim < layout.stored_dim(); dim += 16 / layout.element_bytes) {
      std::set<int> banks;
      for (int r = row; r < row + 8; ++r) banks.insert(CacheLayout::within(r, dim, layout.element_bytes) % 128);
      ASSERT_EQ(banks.size(), 8u) << "row " << row << " dim " << dim;
    }
}

TEST_P(CacheLayoutTest, AppendsWholeSectors) {
  const CacheLayout layout = GetParam();
  for (int row = 0; row < kLeafKeys; ++row) {
    std::set<int> sectors;
    for (int dim = 0; dim < layout.stored_dim(); ++dim)
      sectors.insert(CacheLayout::within(row, dim, layout.element_bytes) / 32);
    ASSERT_EQ(static_cast<int>(sectors.size()), layout.stored_dim() * layout.element_bytes / 32);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CacheLayoutTest,
                         testing::Values(CacheLayout{2, 128, 2, 130}, CacheLayout{1, 256, 2, 64},
                                         CacheLayout{3, 64, 2, 65}, CacheLayout{2, 16, 2, 1}, CacheLayout{2, 80, 2, 64},
                                         CacheLayout{2, 128, 1, 64}, CacheLayout{1, 64, 1, 128}));

// What a matrix instruction's 128-byte swizzle does to byte addresses: bits 4 to 6 are xored with bits 7 to 9.
TEST(CacheLayout, IsTheMatrixInstructionsSwizzle) {
  for (int row = 0; row < kLeafKeys; ++row)
    for (int dim = 0; dim < kPanelDims; ++dim) {
      const int plain = row * 128 + dim * 2;
      ASSERT_EQ(CacheLayout::within(row, dim, 2), plain ^ ((plain >> 3) & 0x70));
    }
}

}  // namespace
}  // namespace fourfold::cuda
