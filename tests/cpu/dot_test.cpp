// Dots against f64: the same quantised activations and exactly decoded weights, float32 rounding only; and bits that do
// not depend on how many tokens or rows share a call.
#include <algorithm>
#include <string>
#include <tuple>

#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

struct Problem {
  Storage storage;
  int n, k, tokens;
  std::vector<std::uint8_t> file;
  std::vector<float> x;
};

Problem make_problem(Storage storage, int n, int k, int tokens, Random& random) {
  Problem p{storage, n, k, tokens, random_matrix(storage, n, k, random), {}};
  for (int i = 0; i < k * tokens; ++i) p.x.push_back(normal(random) * (i % 37 == 0 ? 10.0f : 1.0f));
  return p;
}

struct Prepared {
  Rounding kind;
  std::size_t stride;
  Guarded<std::uint8_t> rows;
  Prepared(Rounding k, std::size_t bytes, std::size_t tokens) : kind(k), stride(bytes), rows(bytes * tokens) {}
  Prepared(Prepared&&) = default;
};

Prepared prepare(const Kernels& table, Rounding kind, const Problem& p) {
  const std::size_t stride = prepared_bytes(kind, p.k);
  Prepared out(kind, stride, static_cast<std::size_t>(p.tokens));
  for (int t = 0; t < p.tokens; ++t)
    table.prepare[static_cast<int>(kind)](p.x.data() + t * p.k, nullptr, p.k,
                                          out.rows.data() + static_cast<std::size_t>(t) * stride);
  return out;
}

double activation(const Prepared& x, int t, int i) {
  const std::uint8_t* row = x.rows.data() + static_cast<std::size_t>(t) * x.stride;
  if (x.kind == Rounding::f32) return reinterpret_cast<const float*>(row)[i];
  if (x.kind == Rounding::bf16) return bf16_to_float(blocks::load_u16(row + 2 * i));
  const auto& block = reinterpret_cast<const QuantBlock*>(row)[i / 32];
  return static_cast<double>(block.scale) * block.value(i % 32);
}

// One token's activations as numbers, and the sum of their magnitudes over each 32 columns.
struct Numbers {
  std::vector<double> x, totals;
};

Numbers numbers(const Prepared& prepared, int t, int k) {
  Numbers out{{}, std::vector<double>(static_cast<std::size_t>((k + 31) / 32))};
  for (int i = 0; i < k; ++i) {
    out.x.push_back(activation(prepared, t, i));
    out.totals[static_cast<std::size_t>(i / 32)] += std::fabs(out.x.back());
  }
  return out;
}

// What float32 rounding allows one output: each of its steps rounds a sum no larger than the sum of magnitudes. A
// format with a minimum cancels inside a block of 32, so its magnitudes are those of the block's largest weight.
struct Expected {
  double value, tolerance;
};

Expected expected(Rounding kind, const Numbers& a, const std::vector<double>& w, const std::vector<double>& largest) {
  double value = 0, magnitude = 0;
  for (std::size_t i = 0; i < w.size(); ++i) value += w[i] * a.x[i];
  for (std::size_t b = 0; b < largest.size(); ++b) magnitude += 3 * largest[b] * a.totals[b];
  const double k = static_cast<double>(w.size()), steps = kind == Rounding::q15 ? k / 16 + 8 : k + 8;
  return {value, std::sqrt(steps) * 0x1p-24 * 4 * magnitude + 1e-30};
}

void run(void (*dot)(const DotArgs&), const std::uint8_t* tiles, int rows, const Prepared& x, int k, int first_token,
         int tokens, float* out, std::size_t out_stride) {
  dot({.tiles = tiles,
       .rows = rows,
       .k = k,
       .x = x.rows.data() + static_cast<std::size_t>(first_token) * x.stride,
       .x_stride = x.stride,
       .tokens = tokens,
       .out = out,
       .out_stride = out_stride});
}

void check(const Kernels& table, const Problem& p, bool f32_mode) {
  SCOPED_TRACE(std::string(table.name) + " " + std::string(info(p.storage).name) + (f32_mode ? " f32" : "") + " n " +
               std::to_string(p.n) + " k " + std::to_string(p.k) + " tokens " + std::to_string(p.tokens));
  const std::size_t which = index(p.storage);
  const auto dot = f32_mode ? table.dot_f32[which] : table.dot[which];
  const Prepared x = prepare(table, f32_mode ? Rounding::f32 : table.rounding[which], p);
  Guarded<std::uint8_t> tiles(tiles_bytes(p.storage, p.n, p.k));
  pack_matrix(p.storage, p.file, p.n, p.k, tiles.data());
  const auto n = static_cast<std::size_t>(p.n);
  Guarded<float> together(n * static_cast<std::size_t>(p.tokens)), alone(n);
  run(dot, tiles.data(), p.n, x, p.k, 0, p.tokens, together.data(), n);

  std::vector<Numbers> activations;
  for (int t = 0; t < p.tokens; ++t) activations.push_back(numbers(x, t, p.k));
  for (int r = 0; r < p.n; ++r) {
    std::vector<double> w, largest(static_cast<std::size_t>((p.k + 31) / 32));
    for (int i = 0; i < p.k; ++i) {
      w.push_back(element(p.storage, p.file, p.k, r, i));
      double& top = largest[static_cast<std::size_t>(i / 32)];
      top = std::max(top, std::fabs(w.back()));
    }
    for (std::size_t t = 0; t < activations.size(); ++t) {
      const Expected e = expected(x.kind, activations[t], w, largest);
      ASSERT_NEAR(together[t * n + static_cast<std::size_t>(r)], e.value, e.tolerance) << "token " << t << " row " << r;
    }
  }
  const auto tile = tile_bytes(p.storage, p.k);
  for (int t = 0; t < p.tokens; ++t) {  // decode: one token, and its rows in two calls
    const float* row = together.data() + static_cast<std::size_t>(t) * n;
    run(dot, tiles.data(), p.n, x, p.k, t, 1, alone.data(), n);
    ASSERT_EQ(std::memcmp(row, alone.data(), n * sizeof(float)), 0) << "token " << t << " alone";
    if (p.n <= kTileRows) continue;
    run(dot, tiles.data() + tile, p.n - kTileRows, x, p.k, t, std::min(2, p.tokens - t),
        together.data() + kTileRows + static_cast<std::size_t>(t) * n, n);
    ASSERT_EQ(std::memcmp(row, alone.data(), n * sizeof(float)), 0) << "token " << t << " from the second tile";
  }
}

class Dot : public ::testing::TestWithParam<Storage> {};

TEST_P(Dot, EqualsDequantiseThenMultiply) {
  Random random(2);
  for (const Kernels* table : levels())
    for (const int n : {1, 4, 7, 33, 96})
      for (const int k : {1, 31, 32, 96, 256, 576, 577, 1024, 4096})
        for (const int tokens : {1, 3, 8, 17, 64}) {
          if (k % info(GetParam()).block_elements || (tokens > 8 && k * n > 40000)) continue;
          const Problem p = make_problem(GetParam(), n, k, tokens, random);
          check(*table, p, false);
          if (tokens <= 8 && k <= 1024) check(*table, p, true);
        }
}

TEST_P(Dot, ChunksOfTokensKeepTheirBits) {
  Random random(3);
  for (const Kernels* table : levels()) check(*table, make_problem(GetParam(), 33, 256, 400, random), false);
}

TEST_P(Dot, ZeroBlocksAndSubnormalScales) {
  Random random(4);
  for (const Kernels* table : levels()) {
    Problem p = make_problem(GetParam(), 20, 512, 7, random);
    const StorageInfo& s = info(GetParam());
    const auto block = static_cast<std::size_t>(s.block_bytes);
    for (std::size_t at = 0, b = 0; at < p.file.size(); at += block, ++b) {
      if (b % 3 == 0) std::memset(p.file.data() + at, 0, block);
      if (b % 3 != 1 || s.block_elements == 1) continue;
      if (GetParam() == Storage::mxfp4)  // 2^-127 .. 2^-120
        p.file[at] = static_cast<std::uint8_t>(random() % 8);
      else
        blocks::store_u16(p.file.data() + at + (GetParam() == Storage::q6_k ? 208 : 0),
                          static_cast<std::uint16_t>(random() & 0x83ff));
    }
    for (int i = 0; i < 512; ++i) p.x[static_cast<std::size_t>(i)] = i < 64 ? 0.0f : p.x[static_cast<std::size_t>(i)];
    check(*table, p, false);
    check(*table, p, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Storages, Dot, every_storage(), storage_name);

// Against unquantised activations: 15-bit blocks of 32 keep 1 - 2 <x, y> / (|x|^2 + |y|^2) below 5e-9, bf16 below 1e-5.
TEST(Prepare, KeepsActivationsAccurate) {
  Random random(5);
  for (const Kernels* table : levels()) {
    Problem p = make_problem(Storage::q8_0, 1, 4096, 3, random);
    for (float& x : p.x) x = normal(random);
    for (const auto& [kind, bound] : {std::pair(Rounding::q15, 5e-9), std::pair(Rounding::bf16, 1e-5)}) {
      const Prepared x = prepare(*table, kind, p);
      double product = 0, norms = 0;
      for (int i = 0; i < p.k * p.tokens; ++i) {
        const double a = p.x[static_cast<std::size_t>(i)], b = activation(x, i / p.k, i % p.k);
        product += 2 * a * b;
        norms += a * a + b * b;
      }
      EXPECT_LT(1 - product / norms, bound) << table->name;
    }
  }
}

TEST(Prepare, SumsAndWeights) {
  Random random(6);
  for (const Kernels* table : levels()) {
    Guarded<float> x(64), weight(64), scaled(64);
    for (float& v : x) v = normal(random);
    for (float& v : weight) v = normal(random);
    Guarded<QuantBlock> blocks(2), plain(2);
    table->prepare[static_cast<int>(Rounding::q15)](x.data(), weight.data(), 64, blocks.data());
    table->prepare[static_cast<int>(Rounding::f32)](x.data(), weight.data(), 64, scaled.data());
    table->prepare[static_cast<int>(Rounding::q15)](scaled.data(), nullptr, 64, plain.data());
    EXPECT_EQ(std::memcmp(blocks.data(), plain.data(), 2 * sizeof(QuantBlock)), 0) << table->name;
    for (int b = 0; b < 2; ++b) {
      int half[2] = {};
      for (int i = 0; i < 32; ++i) half[i / 16] += plain[b].value(i);
      EXPECT_EQ(plain[b].half[0], -128 * half[0]);
      EXPECT_EQ(plain[b].half[1], -128 * half[1]);
      EXPECT_EQ(plain[b].bias, -128 * (half[0] + half[1]));
      EXPECT_EQ(plain[b].sum, plain[b].scale * static_cast<float>(half[0] + half[1]));
    }
  }
}

TEST(Prepare, ZerosGiveZerosAndNanStaysVisible) {
  for (const Kernels* table : levels()) {
    float x[32] = {};
    QuantBlock block;
    table->prepare[static_cast<int>(Rounding::q15)](x, nullptr, 32, &block);
    EXPECT_EQ(block.scale, 0.0f);
    EXPECT_EQ(block.sum, 0.0f);
    EXPECT_EQ(block.bias, 0);
    x[7] = std::nanf("");
    table->prepare[static_cast<int>(Rounding::q15)](x, nullptr, 32, &block);
    EXPECT_TRUE(std::isnan(block.scale)) << table->name;
    x[7] = INFINITY;
    table->prepare[static_cast<int>(Rounding::q15)](x, nullptr, 32, &block);
    EXPECT_FALSE(std::isfinite(block.scale)) << table->name;
  }
}

}  // namespace
}  // namespace fourfold::simd::test
