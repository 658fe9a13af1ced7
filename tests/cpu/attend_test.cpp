// Attention against f64: cache precisions, causal and windowed ranges, empty rows, merging; and bits that do not depend
// on which queries share a call.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A block of `keys` appended keys; what was never appended is 0xAA bytes (as f32: tiny; as f16, bf16: finite) or NaN.
struct Cache {
  Storage type;
  int d, keys;
  Guarded<std::uint8_t> leaves;
  std::vector<double> k, v;  // as the cache rounds them

  std::size_t leaf() const { return kv_leaf_bytes(type, d); }
  // Where the leaves lie; nothing is behind the last.
  std::vector<const std::uint8_t*> places() const {
    std::vector<const std::uint8_t*> all;
    for (std::size_t at = 0; at < leaves.size(); at += leaf()) all.push_back(leaves.data() + at);
    all.push_back(nullptr);
    return all;
  }
};

double rounded(Storage type, float x) {
  if (type == Storage::f16) return half_to_float(float_to_half(x));
  if (type == Storage::bf16) return bf16_to_float(float_to_bf16(x));
  return x;
}

// The same rounding as blocks.hpp's Q8_0 encoder.
void round_row(Storage type, const std::vector<float>& x, std::vector<double>& out) {
  if (type != Storage::q8_0) {
    for (const float value : x) out.push_back(rounded(type, value));
    return;
  }
  for (std::size_t i = 0; i < x.size(); i += 32) {
    std::uint8_t block[34];
    blocks::encode_q8_0(x.data() + i, block);
    for (int j = 0; j < 32; ++j) out.push_back(decode(Storage::q8_0, block, j));
  }
}

Cache make_cache(const Kernels& table, Storage type, int d, int keys, Random& random, std::uint8_t unset = 0xff) {
  const std::size_t leaves = static_cast<std::size_t>((keys + kLeafKeys - 1) / kLeafKeys);
  Cache c{type, d, keys, Guarded<std::uint8_t>(std::max<std::size_t>(leaves, 1) * kv_leaf_bytes(type, d)), {}, {}};
  std::memset(c.leaves.data(), unset, c.leaves.size());  // NaN in every float type
  std::vector<float> k(static_cast<std::size_t>(d)), v(k.size());
  for (int key = 0; key < keys; ++key) {
    for (float& x : k) x = normal(random);
    for (float& x : v) x = normal(random);
    table.kv_append(type, c.leaves.data() + static_cast<std::size_t>(key / kLeafKeys) * c.leaf(), kLeafKeys,
                    key % kLeafKeys, k.data(), v.data(), {d, d});
    round_row(type, k, c.k);
    round_row(type, v, c.v);
  }
  return c;
}

struct Queries {
  std::vector<std::vector<float>> q;
  std::vector<const float*> rows;
  std::vector<std::int32_t> first, last;

  void add(int d, int from, int to, Random& random) {
    q.emplace_back();
    for (int i = 0; i < d; ++i) q.back().push_back(normal(random));
    first.push_back(from);
    last.push_back(to);
  }
};

struct Options {
  float scale = 0.125f, soft_cap = 0;
};

// Runs queries begin..end-1 in one call; returns their states.
std::vector<float> run(const Kernels& table, const Cache& c, Queries& queries, int begin, int end, Options options) {
  queries.rows.clear();
  for (const auto& q : queries.q) queries.rows.push_back(q.data());
  const std::size_t stride = state_floats(c.d);
  Guarded<float> states(stride * static_cast<std::size_t>(end - begin));
  const auto leaves = c.places();
  table.attend({.type = c.type,
                .shape = {c.d, c.d},
                .leaves = leaves.data(),
                .offset = 0,
                .queries = end - begin,
                .q = queries.rows.data() + begin,
                .first = queries.first.data() + begin,
                .last = queries.last.data() + begin,
                .scale = options.scale,
                .soft_cap = options.soft_cap,
                .state = states.data(),
                .state_stride = stride});
  return {states.begin(), states.end()};
}

struct Oracle {
  std::vector<double> out;
  double magnitude = 0;  // of the values met
};

Oracle oracle(const Cache& c, const Queries& queries, int i, Options options, double sink = -kInfinity) {
  const auto d = static_cast<std::size_t>(c.d);
  Oracle o{std::vector<double>(d, 0.0)};
  std::vector<double> s;
  double top = sink;
  const int first = queries.first[static_cast<std::size_t>(i)], last = queries.last[static_cast<std::size_t>(i)];
  for (int key = first; key < last; ++key) {
    double x = 0;
    for (std::size_t j = 0; j < d; ++j)
      x += queries.q[static_cast<std::size_t>(i)][j] * c.k[static_cast<std::size_t>(key) * d + j];
    x *= options.scale;
    if (options.soft_cap > 0) x = options.soft_cap * std::tanh(x / options.soft_cap);
    s.push_back(x);
    top = std::max(top, x);
  }
  double l = sink > -kInfinity ? std::exp(sink - top) : 0;
  for (int key = first; key < last; ++key) {
    const double p = std::exp(s[static_cast<std::size_t>(key - first)] - top);
    l += p;
    for (std::size_t j = 0; j < d; ++j) {
      const double v = c.v[static_cast<std::size_t>(key) * d + j];
      o.out[j] += p * v;
      o.magnitude = std::max(o.magnitude, std::fabs(v));
    }
  }
  for (double& x : o.out) x = l > 0 ? x / l : 0;
  return o;
}

void expect_near(const float* got, const Oracle& wanted, const Queries& queries, int i, int d) {
  // Scores of magnitude about sqrt(d) scale |q||k| are off by d roundings; p and the sums add a few more.
  const int keys = std::max(0, queries.last[static_cast<std::size_t>(i)] - queries.first[static_cast<std::size_t>(i)]);
  const double tolerance = (std::sqrt(d) + std::sqrt(keys + 1.0) + 8) * 0x1p-23 * 4 * wanted.magnitude;
  for (int j = 0; j < d; ++j)
    ASSERT_NEAR(got[j], wanted.out[static_cast<std::size_t>(j)], tolerance) << "query " << i << " dimension " << j;
}

void check(const Kernels& table, const Cache& c, Queries& queries, Options options = {}) {
  SCOPED_TRACE(std::string(table.name) + " " + std::string(info(c.type).name) + " d " + std::to_string(c.d));
  const int n = static_cast<int>(queries.q.size());
  const auto together = run(table, c, queries, 0, n, options);
  const std::size_t stride = state_floats(c.d);
  Guarded<float> out(static_cast<std::size_t>(c.d));
  for (int i = 0; i < n; ++i) {
    const float* state = together.data() + static_cast<std::size_t>(i) * stride;
    table.finish(state, c.d, nullptr, out.data());
    expect_near(out.data(), oracle(c, queries, i, options), queries, i, c.d);
    const auto alone = run(table, c, queries, i, i + 1, options);
    ASSERT_EQ(std::memcmp(alone.data(), state, (stride - 15) * sizeof(float)), 0) << "query " << i << " alone";
  }
}

const Storage kTypes[] = {Storage::f32, Storage::f16, Storage::bf16, Storage::q8_0};

class Attend : public ::testing::TestWithParam<Storage> {};

TEST_P(Attend, CausalPrefillAndDecode) {
  Random random(11);
  for (const Kernels* table : levels())
    for (const int d : {32, 64, 80, 96, 128, 256}) {
      if (!kv_leaf_bytes(GetParam(), d)) continue;
      for (const int keys : {1, 63, 64, 65, 200}) {
        const Cache c = make_cache(*table, GetParam(), d, keys, random);
        Queries queries;
        for (int position = std::max(0, keys - 11); position < keys; ++position)
          for (int head = 0; head < 3; ++head) queries.add(d, 0, position + 1, random);
        check(*table, c, queries, {.scale = 1 / std::sqrt(static_cast<float>(d))});
      }
    }
}

TEST_P(Attend, WholeBlockAndLargeScores) {
  Random random(12);
  for (const Kernels* table : levels()) {
    const Cache c = make_cache(*table, GetParam(), 64, kBlockKeys, random);
    Queries queries;
    for (int head = 0; head < 4; ++head) queries.add(64, 0, kBlockKeys, random);
    check(*table, c, queries, {.scale = 1.0f / 8});
    check(*table, c, queries, {.scale = 1.0f / 8, .soft_cap = 3});
  }
}

TEST_P(Attend, WindowsAndRowsThatSeeNothing) {
  Random random(13);
  for (const Kernels* table : levels()) {
    const Cache c = make_cache(*table, GetParam(), 64, 300, random);
    Queries queries;
    for (const auto& [from, to] : {std::pair(0, 0),
                                   {5, 5},
                                   {9, 4},
                                   {290, 300},
                                   {0, 1},
                                   {64, 128},
                                   {63, 65},
                                   {100, 300},
                                   {299, 300},
                                   {0, 300},
                                   {128, 130},
                                   {10, 20},
                                   {40, 50}})
      queries.add(64, from, to, random);
    check(*table, c, queries);
    const auto states = run(*table, c, queries, 0, 3, {});
    for (int i = 0; i < 3; ++i) {
      float out[64];
      table->finish(states.data() + static_cast<std::size_t>(i) * state_floats(64), 64, nullptr, out);
      for (const float x : out) EXPECT_EQ(x, 0.0f);
    }
  }
}

TEST_P(Attend, HiddenKeysNeverMatter) {
  Random random(14);
  for (const Kernels* table : levels()) {
    Queries queries;
    for (int i = 0; i < 9; ++i) queries.add(64, i, 30 + i, random);
    std::vector<std::vector<float>> seen;
    for (const std::uint8_t unset : {0x00, 0xff, 0x7f}) {
      Random same(15);
      const Cache c = make_cache(*table, GetParam(), 64, 38, same, unset);
      seen.push_back(run(*table, c, queries, 0, 9, {}));
    }
    const std::size_t stride = state_floats(64);
    for (std::size_t i = 0; i < 9; ++i)
      for (const auto& other : seen)
        EXPECT_EQ(std::memcmp(seen[0].data() + i * stride, other.data() + i * stride, (stride - 15) * sizeof(float)),
                  0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Attend, ::testing::ValuesIn(kTypes), storage_name);

TEST(AttendMerge, BlocksMergeToTheWhole) {
  Random random(16);
  for (const Kernels* table : levels()) {
    const Cache c = make_cache(*table, Storage::f32, 64, 256, random);
    Queries queries, parts;
    queries.add(64, 0, 256, random);
    for (int i = 0; i < 4; ++i) {
      parts.add(64, 64 * i, 64 * i + 64, random);
      parts.q.back() = queries.q[0];
    }
    auto states = run(*table, c, parts, 0, 4, {});
    const std::size_t stride = state_floats(64);
    for (std::size_t i = 1; i < 4; ++i) table->merge(states.data(), states.data() + i * stride, 64);
    float out[64];
    for (const float sink : {-kInfinity, 0.5f, 4.0f}) {
      table->finish(states.data(), 64, &sink, out);
      expect_near(out, oracle(c, queries, 0, {}, sink), queries, 0, 64);
    }
  }
}

TEST(AttendMerge, EmptyStatesAreTheIdentity) {
  Random random(17);
  for (const Kernels* table : levels()) {
    const Cache c = make_cache(*table, Storage::f16, 64, 10, random);
    Queries queries;
    queries.add(64, 0, 0, random);
    queries.add(64, 0, 10, random);
    const auto states = run(*table, c, queries, 0, 2, {});
    const std::size_t stride = state_floats(64), used = (stride - 15) * sizeof(float);
    const std::vector<float> empty(states.begin(), states.begin() + static_cast<long>(stride));
    const std::vector<float> full(states.begin() + static_cast<long>(stride), states.end());
    auto a = empty;
    table->merge(a.data(), empty.data(), 64);
    EXPECT_EQ(std::memcmp(a.data(), empty.data(), used), 0) << "empty with empty";
    a = full;
    table->merge(a.data(), empty.data(), 64);
    EXPECT_EQ(std::memcmp(a.data(), full.data(), used), 0) << "full with empty";
    a = empty;
    table->merge(a.data(), full.data(), 64);
    EXPECT_EQ(std::memcmp(a.data(), full.data(), used), 0) << "empty with full";
    float out[64];
    const float sink = 1;
    for (const float* s : {static_cast<const float*>(nullptr), &sink}) {
      table->finish(empty.data(), 64, s, out);
      for (const float x : out) EXPECT_EQ(x, 0.0f);
    }
  }
}

TEST(KvLeaf, RefusesWhatItCannotHold) {
  EXPECT_EQ(kv_leaf_bytes(Storage::q4_0, 64), 0u);
  EXPECT_EQ(kv_leaf_bytes(Storage::q8_0, 80), 0u);
  EXPECT_EQ(kv_leaf_bytes(Storage::f16, 0), 0u);
  EXPECT_EQ(kv_leaf_bytes(Storage::f16, kMaxHeadDim + 1), 0u);
  EXPECT_EQ(kv_leaf_bytes(Storage::f16, 64), 2u * 2 * 64 * 64);
  EXPECT_EQ(kv_leaf_bytes(Storage::q8_0, 64), 2u * (64 * 64 + 2 * 64 * 2));
}

}  // namespace
}  // namespace fourfold::simd::test
