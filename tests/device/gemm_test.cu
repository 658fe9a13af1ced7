// The prefill product and what surrounds it, against double: sizes that fill no tile, every epilogue, every storage's
// unpacking, bits for any cut of a prompt. Skipped where there is no device.
#include <cstring>
#include <string>

#include "cuda/gemm.hpp"
#include "device.cuh"
#include "program/random_bytes.hpp"

namespace fourfold::cuda::test {
namespace {

class Gemm : public DeviceTest {};

float bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

// Rows of bf16 weights, and the same as tiles on the device.
struct Weights {
  int rows, columns, groups;
  TileOrder order;
  std::vector<float> values;  // [rows, columns]
  Buffer<std::uint8_t> tiles;

  Weights(int rows, int columns, int batch, std::uint64_t seed)
      : rows(rows),
        columns(columns),
        groups((rows + kTileRows - 1) / kTileRows),
        order{groups, unpacked_order(groups, columns).slices, batch},
        values(noise_vector(std::size_t(rows) * columns, seed)),
        tiles(static_cast<std::size_t>(order.tiles()) * Tile<Storage::bf16>::kBytes) {
    using T = Tile<Storage::bf16>;
    std::vector<std::uint8_t> bytes(values.size() * 2), packed(static_cast<std::size_t>(order.tiles()) * T::kBytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = bf16(values[i]);
      blocks::store_u16(&bytes[2 * i], float_to_bf16(values[i]));
    }
    for (int group = 0; group < groups; ++group)
      for (int slice = 0; slice < order.slices; ++slice)
        pack_tile<T>({bytes.data() + std::size_t(group) * kTileRows * columns * 2, columns * 2,
                      std::min(kTileRows, rows - group * kTileRows), columns, 1},
                     slice * T::kColumns, &packed[static_cast<std::size_t>(order.index(group, slice)) * T::kBytes]);
    cudaMemcpy(tiles.get(), packed.data(), packed.size(), cudaMemcpyHostToDevice);
  }
};

struct Input {
  int tokens, columns;
  std::vector<float> values, weight;
  Buffer<float> x, norm, scale;
  Buffer<std::byte> bytes;

  Input(int tokens, int columns, std::uint64_t seed)
      : tokens(tokens),
        columns(columns),
        values(noise_vector(std::size_t(tokens) * columns, seed)),
        weight(noise_vector(columns, seed + 1)),
        x(values),
        norm(weight),
        scale(tokens),
        bytes(Panels{nullptr, tokens, columns}.bytes()) {}
  Panels panels() const { return {bytes.get(), tokens, columns}; }
  // What a weight is multiplied with, and the scalar after the dot.
  float rounded(int token, int i, bool normed) const {
    const float v = values[std::size_t(token) * columns + i];
    return bf16(normed ? v * weight[i] : v);
  }
  double scalar(int token, double eps) const {
    double squares = 0;
    for (int i = 0; i < columns; ++i) squares += std::pow(values[std::size_t(token) * columns + i], 2);
    return 1 / std::sqrt(squares / columns + eps);
  }
};

// One comparison; float32 sums of n products err by about sqrt(n) roundings of their size.
void expect_near(const std::vector<float>& got, const std::vector<double>& exact, const std::vector<double>& size,
                 int width, const std::string& name) {
  for (std::size_t i = 0; i < exact.size(); ++i)
    ASSERT_LE(std::abs(got[i] - exact[i]), 4e-6 * size[i] + 1e-6 * std::abs(exact[i]))
        << name << ": token " << i / width << ", row " << i % width << ": " << got[i] << ", not " << exact[i];
}

const char* name_of(DeviceEpilogue epilogue) {
  const char* names[] = {"store", "add", "gated", "append"};
  return names[static_cast<int>(epilogue)];
}

void check(int tokens, int rows, int columns, int batch, DeviceEpilogue epilogue, bool normed) {
  const std::string name = std::to_string(tokens) + " tokens, " + std::to_string(rows) + " x " +
                           std::to_string(columns) + ", batch " + std::to_string(batch) + ", " + name_of(epilogue) +
                           (normed ? ", normed" : "");
  const Weights w(rows, columns, batch, tokens + rows);
  const Input in(tokens, columns, columns);
  const float eps = 1e-5f, dot_scale = 0.5f;
  const bool gated = epilogue == DeviceEpilogue::gated;
  const int width = gated ? rows / 2 : rows;
  const std::vector<float> bias_values = noise_vector(rows, 5), scale_values = noise_vector(rows, 7);
  const std::vector<float> residual_values = noise_vector(std::size_t(tokens) * width, 6);
  const Buffer<float> bias(bias_values), scales(scale_values), residual(residual_values);
  const Buffer<float> out(std::size_t(tokens) * width);
  const float cap = epilogue == DeviceEpilogue::store ? 30.f : 0.f;
  DeviceProject p;
  p.tiles = w.tiles.get();
  p.order = w.order;
  p.columns = columns;
  p.in = in.x.get();
  if (normed) p.norm = {in.norm.get(), eps, 1};
  p.dot_count = gated ? 2 : 1;
  p.dots[0] = {0, width, bias.get(), scales.get(), dot_scale, 0};
  p.dots[1] = {0, width, bias.get() + width, scales.get() + width, dot_scale, 0};
  p.epilogue = epilogue;
  p.activation = gated ? Activation::silu : Activation::none;
  p.soft_cap = cap;
  p.residual = residual.get();
  p.out = out.get();
  ASSERT_EQ(prepare(p, in.panels(), in.scale.get(), false, nullptr), cudaSuccess);
  ASSERT_EQ(multiply(p, in.panels(), in.scale.get(), true, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << name << ": " << cudaGetErrorString(cudaGetLastError());
  std::vector<double> exact, size;
  for (int t = 0; t < tokens; ++t) {
    const double scale = normed ? in.scalar(t, eps) : 1;
    const auto dot = [&](int row, int place, double& norm) {  // its place among scales and biases
      double sum = 0, squares = 0;
      for (int i = 0; i < columns; ++i) {
        const double p = double{w.values[std::size_t(row) * columns + i]} * in.rounded(t, i, normed);
        sum += p, squares += p * p;
      }
      const double by_row = scale * scale_values[place];
      norm = std::abs(std::sqrt(squares) * by_row);
      return dot_scale * (sum * by_row + bias_values[place]);
    };
    for (int r = 0; r < width; ++r) {
      double norm = 0, other = 0;
      double y = 0;
      if (gated) {
        const int row = r / 16 * 32 + r % 16;
        const double gate = dot(row, r, norm), up = dot(row + 16, width + r, other);
        y = gate / (1 + std::exp(-gate)) * up;
        norm = 2 * (norm * std::abs(up) + other * std::abs(gate));
      } else {
        y = dot(r, r, norm);
        if (epilogue == DeviceEpilogue::add) y += residual_values[std::size_t(t) * width + r];
        if (cap > 0) y = cap * std::tanh(y / cap);
      }
      exact.push_back(y), size.push_back(norm + 1);
    }
  }
  expect_near(out.host(), exact, size, width, name);
}

TEST_F(Gemm, MultipliesEverySize) {
  for (int tokens : {1, 2, 5, 128, 129, 300})
    for (const auto& [rows, columns] : {std::pair{16, 64}, {40, 48}, {128, 512}, {200, 576}, {30, 1000}, {129, 1088}}) {
      check(tokens, rows, columns, 1, DeviceEpilogue::store, false);
      check(tokens, rows, columns, 3, DeviceEpilogue::add, true);
      if (HasFatalFailure()) return;
    }
}

TEST_F(Gemm, Gates) {
  for (int tokens : {2, 77, 128})
    for (const auto& [rows, columns] : {std::pair{32, 64}, {160, 576}, {256, 512}, {320, 128}}) {
      check(tokens, rows, columns, 2, DeviceEpilogue::gated, true);
      if (HasFatalFailure()) return;
    }
}

TEST_F(Gemm, PromptsMayBeCutAnywhere) {
  const Weights w(200, 640, 2, 1);
  const int all = 1300;  // in wide tiles
  const Input in(all, 640, 2);
  const Buffer<float> out(all * 200);
  const auto run = [&](int first, int count) {
    const Panels panels{in.bytes.get(), count, in.columns};
    DeviceProject p;
    p.tiles = w.tiles.get();
    p.order = w.order;
    p.columns = in.columns;
    p.in = in.x.get() + first * in.columns;
    p.norm = {in.norm.get(), 1e-6f, 1};
    p.dot_count = 1;
    p.dots[0].rows = 200;
    p.out = out.get() + first * 200;
    EXPECT_EQ(prepare(p, panels, in.scale.get(), true, nullptr), cudaSuccess);
    EXPECT_EQ(multiply(p, panels, in.scale.get(), true, nullptr), cudaSuccess);
  };
  run(0, all);
  const std::vector<float> whole = out.host();
  for (int step : {1, 97, 128, 1100}) {
    cudaMemset(out.get(), 0xff, whole.size() * 4);
    for (int at = 0; at < all; at += step) run(at, std::min(step, all - at));
    const std::vector<float> cut = out.host();
    for (std::size_t i = 0; i < whole.size(); ++i)
      ASSERT_EQ(whole[i], cut[i]) << "cut every " << step << ": token " << i / 200 << ", row " << i % 200;
  }
}

TEST_F(Gemm, PoisonStaysInItsToken) {
  const int tokens = 130, columns = 576, rows = 200, poisoned = 77;
  const Weights w(rows, columns, 2, 1);
  const Input in(tokens, columns, 2);
  const Buffer<float> out(tokens * rows);
  const auto run = [&] {
    DeviceProject p;
    p.tiles = w.tiles.get();
    p.order = w.order;
    p.columns = columns;
    p.in = in.x.get();
    p.norm = {in.norm.get(), 1e-6f, 1};
    p.dot_count = 1;
    p.dots[0].rows = rows;
    p.out = out.get();
    EXPECT_EQ(prepare(p, in.panels(), in.scale.get(), false, nullptr), cudaSuccess);
    EXPECT_EQ(multiply(p, in.panels(), in.scale.get(), false, nullptr), cudaSuccess);
    return out.host();
  };
  const std::vector<float> clean = run();
  const float nan = std::nanf("");
  cudaMemcpy(in.x.get() + poisoned * columns + 3, &nan, sizeof nan, cudaMemcpyHostToDevice);
  const std::vector<float> got = run();
  for (int i = 0; i < tokens * rows; ++i)
    if (i / rows == poisoned)
      ASSERT_TRUE(std::isnan(got[i])) << "row " << i % rows;
    else
      ASSERT_EQ(got[i], clean[i]) << "token " << i / rows << ", row " << i % rows;
}

TEST_F(Gemm, AddsANormBeforeANorm) {
  const int tokens = 3, columns = 700;
  const Input in(tokens, columns, 8);
  const std::vector<float> y = noise_vector(std::size_t(tokens) * columns, 9), post = noise_vector(columns, 10);
  const Buffer<float> y_device(y), post_device(post), sum(y.size());
  DeviceProject p;
  p.columns = columns;
  p.add_x = in.x.get();
  p.add_y = y_device.get();
  p.add_norm = {post_device.get(), 1e-6f, 1};
  p.add_out = sum.get();
  p.norm = {in.norm.get(), 1e-5f, 1};
  ASSERT_EQ(prepare(p, in.panels(), in.scale.get(), false, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<float> got = sum.host(), scale = in.scale.host();
  for (int t = 0; t < tokens; ++t) {
    double squares = 0, after = 0;
    for (int i = 0; i < columns; ++i) squares += std::pow(y[std::size_t(t) * columns + i], 2);
    for (int i = 0; i < columns; ++i) {
      const std::size_t at = std::size_t(t) * columns + i;
      const double exact = in.values[at] + y[at] / std::sqrt(squares / columns + 1e-6) * post[i];
      ASSERT_NEAR(got[at], exact, 1e-5) << "token " << t << ", column " << i;
      after += exact * exact;
    }
    ASSERT_NEAR(scale[t], 1 / std::sqrt(after / columns + 1e-5), 1e-5) << "token " << t;
  }
}

// Random bytes as rows of a storage, and the same as tiles.
struct PackedBytes {
  TileOrder order;
  std::vector<std::uint8_t> tiles;

  template <class T>
  PackedBytes(T, const StorageInfo& storage, int rows, int columns, int batch, bool finite)
      : order{(rows + kTileRows - 1) / kTileRows, (columns + T::kColumns - 1) / T::kColumns, batch} {
    const std::size_t row_bytes = std::size_t(columns / storage.block_elements) * storage.block_bytes;
    std::vector<std::uint8_t> bytes(row_bytes * rows);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(noise(77, i) * 1000);
    if (finite) {
      const RandomBytes random{storage.storage, 5, 0.1f, 0};
      for (std::size_t i = 0; i < bytes.size() / storage.block_bytes; ++i)
        random.block(i, &bytes[i * storage.block_bytes]);
    }
    tiles.resize(static_cast<std::size_t>(order.tiles()) * T::kBytes);
    for (int group = 0; group < order.groups; ++group)
      for (int slice = 0; slice < order.slices; ++slice)
        pack_tile<T>({bytes.data() + group * kTileRows * row_bytes, static_cast<std::int64_t>(row_bytes),
                      std::min(kTileRows, rows - group * kTileRows), columns, 1.5f},
                     slice * T::kColumns, &tiles[static_cast<std::size_t>(order.index(group, slice)) * T::kBytes]);
  }
};

TEST_F(Gemm, UnpacksEveryStorage) {
  for (const StorageInfo& storage : kStorages) {
    const int columns = 1536, rows = 20, groups = 2;
    with_tile(storage.storage, [&](auto tile) {
      using T = decltype(tile);
      const PackedBytes packed(tile, storage, rows, columns, 2, false);
      const TileOrder to = unpacked_order(groups, columns);
      const Buffer<std::uint8_t> from(packed.tiles),
          out(static_cast<std::size_t>(to.tiles()) * Tile<Storage::bf16>::kBytes);
      ASSERT_EQ(unpack_tiles(storage.storage, from.get(), packed.order, columns, out.get(), false, nullptr),
                cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      const std::vector<std::uint8_t> got = out.host();
      for (int row = 0; row < groups * kTileRows; ++row)
        for (int column = 0; column < columns; ++column) {
          const auto at = [&](auto kind, const std::uint8_t* tiles, const TileOrder& o) {
            using K = decltype(kind);
            return tile_value<K>(tiles + o.index(row / kTileRows, column / K::kColumns) * K::kBytes, row % kTileRows,
                                 column % K::kColumns);
          };
          const float exact = bf16(at(T{}, packed.tiles.data(), packed.order)),
                      value = at(Tile<Storage::bf16>{}, got.data(), to);
          ASSERT_TRUE(value == exact || (value != value && exact != exact))
              << storage.name << ": row " << row << ", column " << column << ": " << value << ", not " << exact;
        }
    });
    if (HasFatalFailure()) return;
  }
}

// A product that decodes gives the bits of one over unpacked tiles.
TEST_F(Gemm, DecodesEveryStorageOfCodes) {
  for (const StorageInfo& storage : kStorages)
    for (const auto& [rows, columns] : {std::pair{200, 1536}, {40, 256}, {130, 2304}})
      with_tile(storage.storage, [&](auto tile) {
        if (!decodes(storage.storage)) return;
        const PackedBytes packed(tile, storage, rows, columns, 3, true);
        const TileOrder to = unpacked_order(packed.order.groups, columns);
        const Buffer<std::uint8_t> codes(packed.tiles),
            plain(static_cast<std::size_t>(to.tiles()) * Tile<Storage::bf16>::kBytes);
        ASSERT_EQ(unpack_tiles(storage.storage, codes.get(), packed.order, columns, plain.get(), false, nullptr),
                  cudaSuccess);
        for (const int tokens : {2, 128, 129, 1100}) {
          const Input in(tokens, columns, 3);
          const Buffer<float> out(std::size_t(tokens) * rows), expected(std::size_t(tokens) * rows);
          DeviceProject p;
          p.storage = storage.storage;
          p.tiles = codes.get();
          p.order = packed.order;
          p.columns = columns;
          p.in = in.x.get();
          p.norm = {in.norm.get(), 1e-6f, 1};
          p.dot_count = 1;
          p.dots[0].rows = rows;
          p.out = out.get();
          ASSERT_EQ(prepare(p, in.panels(), in.scale.get(), false, nullptr), cudaSuccess);
          ASSERT_EQ(multiply_decoding(p, in.panels(), in.scale.get(), true, nullptr), cudaSuccess);
          p.storage = Storage::bf16;
          p.tiles = plain.get();
          p.order = to;
          p.out = expected.get();
          ASSERT_EQ(multiply(p, in.panels(), in.scale.get(), false, nullptr), cudaSuccess);
          ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
          const std::vector<float> got = out.host(), want = expected.host();
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i], want[i]) << storage.name << ", " << tokens << " tokens: token " << i / rows << ", row "
                                       << i % rows;
        }
      });
}

TEST_F(Gemm, AppendsHeads) {
  for (const auto& [d, turned, interleaved] :
       {std::tuple{128, 128, false}, {64, 64, true}, {256, 256, false}, {80, 20, false}, {16, 16, true}}) {
    const int heads = 5, kv_heads = 2, tokens = 67, start = 60, width = (heads + 2 * kv_heads) * d;
    const CacheLayout layout{kv_heads, d, 2, start + tokens};
    const std::vector<float> dots = noise_vector(std::size_t(tokens) * width, d), norms = noise_vector(2 * d, 3);
    std::vector<double> frequency;
    for (int i = 0; i < turned / 2; ++i) frequency.push_back(std::pow(10000.0, -2.0 * i / turned));
    std::vector<float2> turn_values;
    for (int t = 0; t < start + tokens; ++t)
      for (double f : frequency)
        turn_values.push_back({static_cast<float>(std::cos(t * f)), static_cast<float>(std::sin(t * f))});
    const Buffer<float> raw(dots), norms_device(norms), query(std::size_t(tokens) * heads * d);
    const Buffer<int> position(std::vector<int>{start});
    const Buffer<float2> turns(turn_values);
    const Buffer<std::byte> cache(static_cast<std::size_t>(layout.bytes()));
    DeviceProject p;
    p.epilogue = DeviceEpilogue::append;
    p.position = position.get();
    p.heads.raw = raw.get();
    p.heads.query_norm = {norms_device.get(), 1e-6f, 1};
    p.heads.key_norm = {norms_device.get() + d, 1e-5f, 1};
    p.heads.turns = turns.get();
    p.heads.rope_dims = turned;
    p.heads.interleaved = interleaved;
    p.heads.heads = heads;
    p.heads.query = query.get();
    p.heads.cache = cache.get();
    p.heads.layout = layout;
    ASSERT_EQ(append_heads(p, tokens, false, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::vector<float> queries = query.host();
    const std::vector<std::byte> bytes = cache.host();
    const auto exact = [&](int t, int column, const float* norm, double eps, bool turn) {
      std::vector<double> x(dots.begin() + std::ptrdiff_t{t} * width + column,
                            dots.begin() + std::ptrdiff_t{t} * width + column + d);
      double squares = 0;
      for (double v : x) squares += v * v;
      for (int i = 0; i < d && norm; ++i) x[i] = x[i] / std::sqrt(squares / d + eps) * norm[i];
      for (int i = 0; i < turned / 2 && turn; ++i) {
        const double angle = (start + t) * frequency[i], c = std::cos(angle), s = std::sin(angle);
        double &a = x[interleaved ? 2 * i : i], &b = x[interleaved ? 2 * i + 1 : i + turned / 2];
        const double p = a, q = b;
        a = p * c - q * s, b = p * s + q * c;
      }
      return x;
    };
    for (int t = 0; t < tokens; ++t) {
      for (int h = 0; h < heads; ++h) {
        const std::vector<double> x = exact(t, h * d, norms.data(), 1e-6, true);
        for (int i = 0; i < d; ++i)
          ASSERT_NEAR(queries[(std::size_t(t) * heads + h) * d + i], x[i], 3e-6 * (1 + std::abs(x[i])))
              << "token " << t << ", head " << h << ", dim " << i << " of " << d;
      }
      for (int h = 0; h < kv_heads; ++h)
        for (Part part : {Part::key, Part::value}) {
          const bool key = part == Part::key;
          const std::vector<double> x =
              exact(t, ((key ? heads : heads + kv_heads) + h) * d, key ? norms.data() + d : nullptr, 1e-5, key);
          for (int i = 0; i < d; ++i) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, &bytes[static_cast<std::size_t>(layout.place(h, start + t, part, i))], 2);
            ASSERT_NEAR(bf16_to_float(bits), x[i], 0.004 * std::abs(x[i]) + 1e-6)
                << "token " << t << ", kv head " << h << ", dim " << i << (key ? " key" : " value");
          }
        }
    }
  }
}

}  // namespace
}  // namespace fourfold::cuda::test
