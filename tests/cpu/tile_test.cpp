// Tiles: same size as the file's rows, and every element comes back exactly.
#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

class Tile : public ::testing::TestWithParam<Storage> {};

TEST_P(Tile, UnpacksEveryElementExactly) {
  const Storage storage = GetParam();
  Random random(1);
  for (const int k : {1, 2, 5, 32, 96, 256, 768}) {
    if (k % info(storage).block_elements) continue;
    for (const int n : {1, 15, 16, 33}) {
      const auto file = random_matrix(storage, n, k, random);
      Guarded<std::uint8_t> tiles(tiles_bytes(storage, n, k));
      pack_matrix(storage, file, n, k, tiles.data());
      Guarded<float> row(static_cast<std::size_t>(k));
      for (int r = 0; r < (n + 15) / 16 * 16; ++r) {
        unpack_row(storage, k, tiles.data() + static_cast<std::size_t>(r / 16) * tile_bytes(storage, k), r % 16,
                   row.data());
        for (int i = 0; i < k; ++i) {
          const float wanted = r < n ? element(storage, file, k, r, i) : 0.0f;
          ASSERT_EQ(row[static_cast<std::size_t>(i)], wanted) << "n " << n << " k " << k << " at " << r << ", " << i;
        }
      }
    }
  }
}

TEST_P(Tile, TakesTheFilesBytes) {
  const Storage storage = GetParam();
  EXPECT_EQ(tile_bytes(storage, 1024), 16 * row_bytes(storage, 1024));
}

INSTANTIATE_TEST_SUITE_P(Storages, Tile, every_storage(), storage_name);

}  // namespace
}  // namespace fourfold::simd::test
