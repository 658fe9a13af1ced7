// Tiles hold every weight once, where they say, and decode to what the file's blocks mean.
#include "cuda/tile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "program/random_bytes.hpp"

namespace fourfold::cuda {
namespace {

constexpr Storage kAll[] = {Storage::f32,  Storage::f16,  Storage::bf16, Storage::q4_0,  Storage::q4_1,
                            Storage::q5_0, Storage::q5_1, Storage::q8_0, Storage::q4_k,  Storage::q5_k,
                            Storage::q6_k, Storage::fp8,  Storage::int4, Storage::mxfp4, Storage::nvfp4};

// `rows` rows of `columns` numbers, every bit of the blocks random but for scales of ordinary size.
std::vector<std::uint8_t> random_rows(Storage storage, int rows, int columns) {
  const auto& kind = info(storage);
  const RandomBytes random{storage, 17, 0.05f, 0};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * (columns / kind.block_elements) * kind.block_bytes));
  for (std::size_t b = 0; b * static_cast<std::size_t>(kind.block_bytes) < bytes.size(); ++b)
    random.block(b, bytes.data() + b * static_cast<std::size_t>(kind.block_bytes));
  return bytes;
}

class Tiles : public testing::TestWithParam<Storage> {};

// The last tile of a matrix whose rows and columns do not fill it.
TEST_P(Tiles, DecodeToWhatTheFileMeans) {
  const Storage storage = GetParam();
  const auto& kind = info(storage);
  const int step = kind.block_elements;
  with_tile(storage, [&](auto tile) {
    using T = decltype(tile);
    const int columns = T::kColumns + std::max(step, 64), rows = 11;
    const auto bytes = random_rows(storage, rows, columns);
    const std::int64_t row_bytes = columns / step * kind.block_bytes;
    for (int slice = 0; slice < 2; ++slice) {
      std::vector<std::uint8_t> packed(T::kBytes, 0xcd);
      pack_tile<T>(TileSource{bytes.data(), row_bytes, rows, columns, 1}, slice * T::kColumns, packed.data());
      for (int r = 0; r < kTileRows; ++r)
        for (int c = 0; c < T::kColumns; ++c) {
          const int column = slice * T::kColumns + c;
          float expected = 0;
          if (r < rows && column < columns)
            expected = decode(storage, bytes.data() + r * row_bytes + column / step * kind.block_bytes, column % step);
          const float got = tile_value<T>(packed.data(), r, c);
          ASSERT_EQ(got, expected) << kind.name << " row " << r << " column " << column;
        }
    }
  });
}

TEST_P(Tiles, EveryBitOfAPlaneBelongsToOneElement) {
  with_tile(GetParam(), [](auto tile) {
    using T = decltype(tile);
    const auto fill = [](auto plane, int bits) {
      using P = decltype(plane);
      std::vector<std::uint32_t> words(P::kBytes / 4, 0);
      for (int strip = 0; strip < kTileStrips; ++strip)
        for (int r = 0; r < kTileRows; ++r)
          for (int c = 0; c < T::kStripColumns; ++c) {
            const Slot at = slot(r, c % 16);
            const int word = P::word_of(c / 16, at.pair, at.half);
            const std::uint32_t field = P::put((1ull << bits) - 1, c / 16, at.pair, at.half);
            auto& mine = words[static_cast<std::size_t>(P::word_place(strip, word, at.lane) / 4)];
            ASSERT_EQ(mine & field, 0u) << "row " << r << " column " << c;
            mine |= field;
          }
      for (const std::uint32_t word : words) ASSERT_EQ(word, ~std::uint32_t{0});
    };
    fill(typename T::Low{}, T::kLowBits);
    if constexpr (T::High::kBytes > 0) fill(typename T::High{}, 4 * T::High::kWords / T::kSteps);
  });
}

INSTANTIATE_TEST_SUITE_P(Storages, Tiles, testing::ValuesIn(kAll),
                         [](const auto& test) { return std::string(fourfold::info(test.param).name); });

TEST(Tile, Fp8CarriesTheScaleOfItsBlock) {
  using T = Tile<Storage::fp8>;
  const auto bytes = random_rows(Storage::fp8, 16, 1024);
  std::vector<std::uint8_t> packed(T::kBytes);
  pack_tile<T>(TileSource{bytes.data(), 1024, 16, 1024, 0.375f}, 0, packed.data());
  for (int c = 0; c < 1024; ++c)
    ASSERT_EQ(tile_value<T>(packed.data(), 5, c), 0.375f * e4m3_to_float(bytes[5 * 1024 + static_cast<unsigned>(c)]));
}

TEST(Tile, OrderVisitsEveryTileOnceBatchByBatch) {
  for (const TileOrder order : {TileOrder{7, 5, 2}, TileOrder{4, 1, 8}, TileOrder{1, 3, 1}, TileOrder{28, 4, 14}}) {
    std::set<std::int64_t> seen;
    for (int group = 0; group < order.groups; ++group)
      for (int slice = 0; slice < order.slices; ++slice) seen.insert(order.index(group, slice));
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), order.tiles());
    EXPECT_EQ(*seen.rbegin(), order.tiles() - 1);
  }
  const TileOrder pairs{6, 3, 2};
  EXPECT_EQ(pairs.index(3, 1), pairs.index(2, 1) + 1);
  EXPECT_EQ(pairs.index(2, 2), pairs.index(3, 1) + 1);
}

TEST(RandomBytes, HaveTheDeviationTheyAreAskedFor) {
  for (const Storage storage : kAll) {
    const auto& kind = info(storage);
    const auto bytes = random_rows(storage, 64, 1024);
    double sum = 0, squares = 0;
    int count = 0;
    for (std::size_t b = 0; b * static_cast<std::size_t>(kind.block_bytes) < bytes.size(); ++b)
      for (int i = 0; i < kind.block_elements; ++i, ++count) {
        const double x = decode(storage, bytes.data() + b * static_cast<std::size_t>(kind.block_bytes), i);
        ASSERT_TRUE(std::isfinite(x)) << kind.name;
        sum += x;
        squares += x * x;
      }
    const bool spread = storage == Storage::q4_k || storage == Storage::q5_k;  // minima add to the deviation
    const double coarse =
        spread || storage == Storage::fp8 || storage == Storage::mxfp4 || storage == Storage::nvfp4 ? 2 : 1.2;
    EXPECT_LT(std::abs(sum / count), 0.02) << kind.name;
    EXPECT_LT(std::sqrt(squares / count), 0.05 * coarse) << kind.name;
    EXPECT_GT(std::sqrt(squares / count), 0.05 / coarse) << kind.name;
  }
}

}  // namespace
}  // namespace fourfold::cuda
