// The token's Project against double: every storage and epilogue, shapes that fill no tile, any number of
// multiprocessors with the same bits. Weights are packed on the device. Skipped where there is no device.
#include <cstring>
#include <string>

#include "cuda/pack.hpp"
#include "cuda/project.hpp"
#include "cuda/steps.hpp"
#include "cuda/weights.hpp"
#include "device.cuh"

namespace fourfold::cuda::test {
namespace {

constexpr Storage kAll[] = {Storage::f32,  Storage::f16,  Storage::bf16, Storage::q4_0,  Storage::q4_1,
                            Storage::q5_0, Storage::q5_1, Storage::q8_0, Storage::q4_k,  Storage::q5_k,
                            Storage::q6_k, Storage::fp8,  Storage::int4, Storage::mxfp4, Storage::nvfp4};

// Random rows in the file's layout, made on the device, compared with the host's, and packed there.
struct Matrix {
  Storage storage;
  int rows, columns;
  std::vector<std::uint8_t> bytes;

  Matrix(Storage storage, int rows, int columns, std::uint64_t seed) : storage(storage), rows(rows), columns(columns) {
    const auto& kind = info(storage);
    const RandomBytes random{storage, RandomBytes::mix(seed), 1 / std::sqrt(static_cast<float>(columns)), 0};
    const std::uint64_t blocks = std::uint64_t(rows) * (columns / kind.block_elements);
    bytes.resize(blocks * kind.block_bytes);
    for (std::uint64_t b = 0; b < blocks; ++b) random.block(b, &bytes[b * kind.block_bytes]);
    Buffer<std::uint8_t> made(bytes.size());
    EXPECT_EQ(make_random(random, 0, blocks, made.get(), nullptr), cudaSuccess);
    const auto got = made.host();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (got[i] != bytes[i]) {
        ADD_FAILURE() << kind.name << ": byte " << i << " of random weights is " << int(got[i]) << " on the device, "
                      << int(bytes[i]) << " on the host";
        break;
      }
  }
  double at(int r, int c) const {
    const auto& kind = info(storage);
    const std::size_t row = std::size_t(r) * (columns / kind.block_elements) * kind.block_bytes;
    return decode(storage, &bytes[row + c / kind.block_elements * kind.block_bytes], c % kind.block_elements);
  }
  double dot(int r, const std::vector<double>& x) const {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += at(r, c) * x[c];
    return sum;
  }
};

// The tiles of some matrices, one after the other or (step 2) alternating by row groups.
struct Tiles {
  Storage storage;
  TileOrder order{};
  std::vector<int> first_groups;
  Buffer<std::uint8_t> bytes;

  static int groups(const Matrix& m) { return (m.rows + kTileRows - 1) / kTileRows; }
  static TileOrder order_of(const std::vector<const Matrix*>& all) {
    const TileSize tile = tile_size(resident_storage(all[0]->storage));
    TileOrder order{0, (all[0]->columns + tile.columns - 1) / tile.columns, 2};
    for (const Matrix* m : all) order.groups += groups(*m);
    return order;
  }
  Tiles(const std::vector<const Matrix*>& all, int step, const float* block_scales = nullptr)
      : storage(resident_storage(all[0]->storage)),
        order(order_of(all)),
        bytes(static_cast<std::size_t>(order.tiles()) * tile_size(storage).bytes) {
    int next = 0;
    for (const Matrix* m : all) {
      Buffer<std::uint8_t> rows(m->bytes);
      PackRows pack{m->storage, storage != m->storage, rows.get(), m->rows, m->columns, bytes.get(), order, next,
                    step,       block_scales};
      EXPECT_EQ(pack_rows(pack, nullptr), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      first_groups.push_back(next);
      next += step == 1 ? groups(*m) : 1;
    }
  }
};

std::vector<double> wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// Largest error, relative to the norm of the expected row.
void expect_close(const std::vector<float>& got, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  double error = 0, size = 0;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(got[i] - expected[i]);
    if (!(off <= std::abs(got[worst] - expected[worst]))) worst = i;
    error += off * off;
    size += expected[i] * expected[i];
  }
  const double relative = std::sqrt(error / std::max(size, 1e-300));
  EXPECT_LE(relative, tolerance) << what << ": worst at " << worst << " of " << got.size() << ": " << got[worst]
                                 << " instead of " << expected[worst];
  if (relative < tolerance / 100) std::printf("tolerance is loose: %s: %.1e\n", what.c_str(), relative);
}

class ProjectTest : public DeviceTest {};

DeviceProject store_of(const Tiles& tiles, const Matrix& m, const Buffer<float>& x, Buffer<float>& out) {
  DeviceProject p;
  p.storage = tiles.storage;
  p.tiles = tiles.bytes.get();
  p.order = tiles.order;
  p.columns = m.columns;
  p.in = x.get();
  p.dots[0].rows = m.rows;
  p.dot_count = 1;
  p.out = out.get();
  return p;
}

void run(const DeviceProject& p, int multiprocessors = 132, bool programmatic = false) {
  ASSERT_EQ(project_token(p, multiprocessors, programmatic, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
}

TEST_F(ProjectTest, EveryStorageAgreesWithDoubleOnShapesThatFillNoTile) {
  for (const Storage storage : kAll) {
    const int block = info(storage).block_elements;
    for (const auto& [rows, columns] : {std::pair{16, 256}, {1, 512}, {200, 768}, {576, 2304}, {65, 14336}}) {
      if (columns % block != 0) continue;
      const Matrix m(storage, rows, columns, 7 + rows);
      const Tiles tiles({&m}, 1);
      const auto x = noise_vector(columns, rows);
      Buffer<float> in(x), out(rows);
      run(store_of(tiles, m, in, out));
      std::vector<double> expected;
      for (int r = 0; r < rows; ++r) expected.push_back(m.dot(r, wide(x)));
      expect_close(out.host(), expected, 2e-6,
                   std::string(info(storage).name) + " " + std::to_string(rows) + "x" + std::to_string(columns));
    }
  }
}

TEST_F(ProjectTest, ColumnsThatFillNoBlockOfTheTile) {
  for (const int columns : {4, 36, 576, 640, 1028}) {
    for (const Storage storage : {Storage::f32, Storage::f16, Storage::bf16, Storage::fp8}) {
      const Matrix m(storage, 40, columns, columns);
      const Tiles tiles({&m}, 1);
      const auto x = noise_vector(columns, 3);
      Buffer<float> in(x), out(40);
      run(store_of(tiles, m, in, out));
      std::vector<double> expected;
      for (int r = 0; r < 40; ++r) expected.push_back(m.dot(r, wide(x)));
      expect_close(out.host(), expected, 2e-6, std::string(info(storage).name) + " " + std::to_string(columns));
    }
  }
}

// Magnitudes from 1e-30 to 1e30 side by side, zeros, and one strip of zeros only.
TEST_F(ProjectTest, ActivationsOfEverySizeKeepTheirPrecision) {
  for (const Storage storage : kAll) {
    const Matrix m(storage, 64, 2048, 11);
    const Tiles tiles({&m}, 1);
    for (const float size : {1e-30f, 1e-6f, 1.f, 1e6f, 1e30f}) {
      auto x = noise_vector(2048, 5);
      for (int c = 0; c < 2048; ++c) x[c] = c / 128 % 4 == 1 ? 0 : x[c] * size * (c / 64 % 2 == 0 ? 1.f : 1e-3f);
      Buffer<float> in(x), out(64);
      run(store_of(tiles, m, in, out));
      std::vector<double> expected;
      for (int r = 0; r < 64; ++r) expected.push_back(m.dot(r, wide(x)));
      expect_close(out.host(), expected, 2e-6, std::string(info(storage).name) + " at " + std::to_string(size));
    }
  }
}

TEST_F(ProjectTest, NumbersThatAreNoneReachEveryRow) {
  const Matrix m(Storage::q8_0, 32, 1024, 3);
  const Tiles tiles({&m}, 1);
  auto x = noise_vector(1024, 5);
  x[700] = INFINITY;
  Buffer<float> in(x), out(32);
  run(store_of(tiles, m, in, out));
  for (const float y : out.host()) EXPECT_FALSE(std::isfinite(y));
}

struct Norm {
  std::vector<float> weight;
  Buffer<float> device;
  float eps = 1e-5f;
  explicit Norm(int columns, std::uint64_t seed) : weight(noise_vector(columns, seed)), device(weight) {}
  DeviceNorm on_device() const { return {device.get(), eps, 1}; }
  std::vector<double> of(const std::vector<double>& x) const {
    double squares = 0;
    for (double v : x) squares += v * v;
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(eps)) *
             static_cast<double>(weight[i]);
    return y;
  }
};

TEST_F(ProjectTest, NormBiasScalesSoftCapAndResidual) {
  for (const Storage storage : {Storage::bf16, Storage::q4_k, Storage::int4}) {
    const int rows = 130, columns = 768;
    const Matrix m(storage, rows, columns, 5);
    const Tiles tiles({&m}, 1);
    const Norm norm(columns, 9);
    const auto x = noise_vector(columns, 1), bias = noise_vector(rows, 2), scales = noise_vector(rows, 3),
               residual = noise_vector(rows, 4);
    Buffer<float> in(x), out(rows), bias_(bias), scales_(scales), residual_(residual);
    DeviceProject p = store_of(tiles, m, in, out);
    p.norm = norm.on_device();
    p.dots[0].bias = bias_.get();
    p.dots[0].scales = scales_.get();
    p.dots[0].scale = 0.5f;
    const auto input = norm.of(wide(x));
    std::vector<double> y;
    for (int r = 0; r < rows; ++r) y.push_back(0.5 * (double(scales[r]) * m.dot(r, input) + double(bias[r])));
    p.soft_cap = 0.7f;
    run(p);
    std::vector<double> capped;
    for (double v : y) capped.push_back(double(0.7f) * std::tanh(v / double(0.7f)));
    expect_close(out.host(), capped, 2e-6, std::string(info(storage).name) + " store");
    p.epilogue = DeviceEpilogue::add;
    p.residual = residual_.get();
    out.clear(0xff);
    run(p);
    for (int r = 0; r < rows; ++r) y[r] += double(residual[r]);
    expect_close(out.host(), y, 2e-6, std::string(info(storage).name) + " add");
  }
}

TEST_F(ProjectTest, AddNormInFront) {
  const int rows = 48, columns = 640;
  const Matrix m(Storage::bf16, rows, columns, 5);
  const Tiles tiles({&m}, 1);
  const Norm post(columns, 9), norm(columns, 10);
  const auto x = noise_vector(columns, 1), y = noise_vector(columns, 2);
  Buffer<float> x_(x), y_(y), sum(columns), out(rows);
  DeviceProject p = store_of(tiles, m, sum, out);
  p.add_x = x_.get();
  p.add_y = y_.get();
  p.add_norm = post.on_device();
  p.add_out = sum.get();
  p.norm = norm.on_device();
  run(p);
  auto in = post.of(wide(y));
  for (int c = 0; c < columns; ++c) in[c] += double(x[c]);
  expect_close(sum.host(), in, 1e-6, "sum");
  std::vector<double> expected;
  for (int r = 0; r < rows; ++r) expected.push_back(m.dot(r, norm.of(in)));
  expect_close(out.host(), expected, 2e-6, "AddNorm");
}

TEST_F(ProjectTest, GateAndUpAlternate) {
  for (const Storage storage : {Storage::bf16, Storage::q4_0, Storage::mxfp4})
    for (const int rows : {16, 176, 1000}) {
      const Matrix gate(storage, rows, 512, 5), up(storage, rows, 512, 6);
      const Tiles tiles({&gate, &up}, 2);
      const auto x = noise_vector(512, 1);
      Buffer<float> in(x), out(rows);
      DeviceProject p = store_of(tiles, gate, in, out);
      p.dots[1].rows = rows;
      p.dot_count = 2;
      p.epilogue = DeviceEpilogue::gated;
      p.activation = Activation::silu;
      run(p);
      std::vector<double> expected;
      for (int r = 0; r < rows; ++r) {
        const double g = gate.dot(r, wide(x));
        expected.push_back(g / (1 + std::exp(-g)) * up.dot(r, wide(x)));
      }
      expect_close(out.host(), expected, 3e-6, std::string(info(storage).name) + " gate " + std::to_string(rows));
    }
}

TEST_F(ProjectTest, EveryNumberOfMultiprocessorsGivesTheSameBits) {
  for (const Storage storage : {Storage::bf16, Storage::q8_0, Storage::int4, Storage::q6_k}) {
    const Matrix m(storage, 1000, 1536, 5);
    const Tiles tiles({&m}, 1);
    Buffer<float> in(noise_vector(1536, 1)), out(1000);
    std::vector<float> first;
    for (const int multiprocessors : {132, 66, 1, 7, 131}) {
      out.clear(0xff);
      run(store_of(tiles, m, in, out), multiprocessors, multiprocessors == 66);
      const auto got = out.host();
      if (first.empty()) first = got;
      EXPECT_EQ(std::memcmp(first.data(), got.data(), got.size() * 4), 0)
          << info(storage).name << " on " << multiprocessors;
    }
  }
}

TEST_F(ProjectTest, Fp8HasAScaleForEachBlockOf128By128) {
  const int rows = 300, columns = 1280;
  const Matrix m(Storage::fp8, rows, columns, 5);
  const auto scales = noise_vector(3 * 10, 8), x = noise_vector(columns, 1);
  Buffer<float> scales_(scales), in(x), out(rows);
  const Tiles tiles({&m}, 1, scales_.get());
  run(store_of(tiles, m, in, out));
  std::vector<double> expected;
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int c = 0; c < columns; ++c) sum += m.at(r, c) * double(scales[r / 128 * 10 + c / 128]) * double(x[c]);
    expected.push_back(sum);
  }
  expect_close(out.host(), expected, 2e-6, "fp8 blocks");
}

// Queries, keys and values: norms of heads, rotation, and what enters the cache, with heads that share blocks of
// threads.
TEST_F(ProjectTest, AppendNormsTurnsAndStoresHeads) {
  struct Case {
    int heads, kv_heads, dim, rope_dims;
    bool interleaved, norms;
  };
  for (const Case c :
       {Case{9, 3, 64, 64, false, false}, Case{4, 1, 256, 256, false, true}, Case{8, 2, 128, 128, true, true},
        Case{6, 2, 48, 32, false, true}, Case{2, 2, 16, 0, false, false}}) {
    const std::string what = std::to_string(c.heads) + " heads of " + std::to_string(c.dim);
    const int columns = 512, position = 77, q_rows = c.heads * c.dim, kv_rows = c.kv_heads * c.dim;
    const Matrix q(Storage::bf16, q_rows, columns, 1), k(Storage::bf16, kv_rows, columns, 2),
        v(Storage::bf16, kv_rows, columns, 3);
    const Tiles tiles({&q, &k, &v}, 1);
    const auto x = noise_vector(columns, 4);
    const Norm query_norm(c.dim, 5), key_norm(c.dim, 6);
    std::vector<float2> turns(128 * std::max(1, c.rope_dims / 2));
    for (int p = 0; p < 128; ++p)
      for (int i = 0; i < c.rope_dims / 2; ++i)
        turns[p * (c.rope_dims / 2) + i] = {std::cos(p * std::pow(10.f, -0.1f * i)),
                                            std::sin(p * std::pow(10.f, -0.1f * i))};
    const CacheLayout layout{c.kv_heads, c.dim, 2, 128};
    Buffer<float> in(x), query(q_rows), raw(q_rows + 2 * kv_rows);
    Buffer<float2> turns_(turns);
    Buffer<unsigned> arrived(c.heads + 2 * c.kv_heads, 0);
    Buffer<std::byte> cache(layout.bytes(), 0);
    Buffer<int> position_(std::vector<int>{position});
    DeviceProject p = store_of(tiles, q, in, query);
    p.dot_count = 3;
    p.dots[1] = {tiles.first_groups[1], kv_rows, nullptr, nullptr, 1, q_rows};
    p.dots[2] = {tiles.first_groups[2], kv_rows, nullptr, nullptr, 1, q_rows + kv_rows};
    p.epilogue = DeviceEpilogue::append;
    p.heads = {raw.get(),
               arrived.get(),
               c.norms ? query_norm.on_device() : DeviceNorm{},
               c.norms ? key_norm.on_device() : DeviceNorm{},
               c.rope_dims > 0 ? turns_.get() : nullptr,
               c.rope_dims,
               0,
               c.interleaved,
               c.heads,
               query.get(),
               cache.get(),
               layout,
               KvType::bf16};
    p.position = position_.get();
    for (int repeat = 0; repeat < 2; ++repeat) run(p, repeat == 0 ? 132 : 5);
    const auto head = [&](const Matrix& m, int h, const Norm* norm, bool turn) {
      std::vector<double> y(c.dim);
      for (int i = 0; i < c.dim; ++i) y[i] = m.dot(h * c.dim + i, wide(x));
      if (norm != nullptr && c.norms) y = norm->of(y);
      for (int i = 0; turn && i < c.rope_dims / 2; ++i) {
        const float2 t = turns[position * (c.rope_dims / 2) + i];
        double &a = y[c.interleaved ? 2 * i : i], &b = y[c.interleaved ? 2 * i + 1 : i + c.rope_dims / 2];
        const double first = a * double(t.x) - b * double(t.y);
        b = a * double(t.y) + b * double(t.x);
        a = first;
      }
      return y;
    };
    std::vector<double> queries, keys, values;
    for (int h = 0; h < c.heads; ++h)
      for (double y : head(q, h, &query_norm, true)) queries.push_back(y);
    expect_close(query.host(), queries, 3e-6, what + ", queries");
    const auto stored = cache.host();
    std::vector<float> got_keys, got_values;
    for (int h = 0; h < c.kv_heads; ++h) {
      for (double y : head(k, h, &key_norm, true)) keys.push_back(y);
      for (double y : head(v, h, nullptr, false)) values.push_back(y);
      for (int i = 0; i < c.dim; ++i) {
        const auto read = [&](Part part) {
          return bf16_to_float(
              blocks::load_u16(reinterpret_cast<const std::uint8_t*>(&stored[layout.place(h, position, part, i)])));
        };
        got_keys.push_back(read(Part::key));
        got_values.push_back(read(Part::value));
      }
    }
    expect_close(got_keys, keys, 4e-3, what + ", keys");
    expect_close(got_values, values, 4e-3, what + ", values");
    for (unsigned count : arrived.host()) EXPECT_EQ(count, 0u) << what;
  }
}

TEST_F(ProjectTest, EmbedsRowsOfEveryStorage) {
  for (const Storage storage : kAll) {
    const Matrix m(storage, 100, 768, 3);
    const Tiles tiles({&m}, 1);
    WeightRun table{tiles.storage, tiles.bytes.get(), tiles.order, 768, 0, {0}};
    for (const int id : {0, 15, 16, 99}) {
      Buffer<TokenState> state(std::vector<TokenState>{{id, 0, 0}});
      Buffer<float> out(768);
      ASSERT_EQ(embed_token(table, 2, state.get(), out.get(), false, nullptr), cudaSuccess);
      const auto got = out.host();
      for (int c = 0; c < 768; ++c)
        ASSERT_EQ(got[c], 2 * static_cast<float>(m.at(id, c)))
            << info(storage).name << " row " << id << " column " << c;
    }
  }
}

TEST_F(ProjectTest, SamplesTheLowestIdOfTheLargestLogit) {
  for (const int vocab : {1, 5, 1000, 1025, 128256}) {
    auto logits = noise_vector(vocab, vocab);
    std::vector<int> wanted;
    for (const int best : {vocab - 1, vocab / 2, 0}) {
      for (const int copy : {best, vocab - 1}) logits[copy] = 100.f + (vocab - best);
      if (best > 1) logits[1] = NAN;
      Buffer<float> device(logits);
      Buffer<unsigned long long> scratch(2, 0);
      Buffer<TokenState> state(std::vector<TokenState>{{3, 10, 0}});
      int* ids = nullptr;
      ASSERT_EQ(cudaHostAlloc(&ids, 16, cudaHostAllocMapped), cudaSuccess);
      for (int repeat = 0; repeat < 3; ++repeat)
        ASSERT_EQ(sample_token({device.get(), vocab, 0, 0, scratch.get(), state.get(), ids, 4}, repeat > 0, nullptr),
                  cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(ids[i], best) << vocab;
      const TokenState now = state.host()[0];
      EXPECT_EQ(now.position, 13);
      EXPECT_EQ(now.id, best);
      cudaFreeHost(ids);
    }
  }
}

TEST_F(ProjectTest, DrawsWithTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> logits{0, 1, 2, -1};
  Buffer<float> device(logits);
  Buffer<unsigned long long> scratch(2, 0);
  Buffer<TokenState> state(std::vector<TokenState>{{0, 0, 0}});
  constexpr int kDraws = 4000;
  int* ids = nullptr;
  ASSERT_EQ(cudaHostAlloc(&ids, kDraws * sizeof(int), cudaHostAllocMapped), cudaSuccess);
  for (int i = 0; i < kDraws; ++i)
    ASSERT_EQ(sample_token({device.get(), 4, 2.f, 99, scratch.get(), state.get(), ids, kDraws}, false, nullptr),
              cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<int> counts(4);
  for (int i = 0; i < kDraws; ++i) ++counts[ids[i]];
  double total = 0;
  for (float l : logits) total += std::exp(2. * double(l));
  for (int i = 0; i < 4; ++i) {
    const double p = std::exp(2. * double(logits[i])) / total;
    EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1) << i;
  }
  cudaFreeHost(ids);
}

}  // namespace
}  // namespace fourfold::cuda::test
