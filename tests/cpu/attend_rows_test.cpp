// Leaves of keys only (latents) against f64: every cache type, keys longer than values, bits that do not depend on
// which queries share a call; and the scores of an indexer.
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

struct Shape {
  int key, value;
};
constexpr Shape kShapes[] = {{48, 32}, {40, 33}, {576, 512}, {64, 64}};

// A block of `keys` appended rows, and what the cache made of them.
struct Rows {
  Storage type;
  KvShape shape;
  int keys;
  Guarded<std::uint8_t> leaves;
  std::vector<double> k;

  Rows(const Kernels& table, Storage type, KvShape shape, int keys, Random& random)
      : type(type), shape(shape), keys(keys), leaves(leaf() * static_cast<std::size_t>((keys + 63) / 64)) {
    std::memset(leaves.data(), 0xff, leaves.size());  // NaN in every float type
    std::vector<float> key(static_cast<std::size_t>(shape.key));
    for (int i = 0; i < keys; ++i) {
      for (float& x : key) x = normal(random);
      std::uint8_t* at = leaves.data() + static_cast<std::size_t>(i / kLeafKeys) * leaf();
      table.kv_append(type, at, kLeafKeys, i % kLeafKeys, key.data(), nullptr, shape);
      std::vector<std::uint8_t> row(kv_row_bytes(type, shape));
      kv_read_row(type, shape, at, kLeafKeys, i % kLeafKeys, row.data());
      const auto& s = info(type);
      for (int j = 0; j < shape.key; ++j)
        k.push_back(decode(type, row.data() + j / s.block_elements * s.block_bytes, j % s.block_elements));
    }
  }
  std::size_t leaf() const { return kv_leaf_bytes(type, shape); }
  std::vector<const std::uint8_t*> places() const {
    std::vector<const std::uint8_t*> at;
    for (std::size_t i = 0; i * leaf() < leaves.size(); ++i) at.push_back(leaves.data() + i * leaf());
    at.push_back(nullptr);
    return at;
  }
};

struct Query {
  std::vector<float> padded;
  std::int32_t first, last;
};

std::vector<float> run(const Kernels& table, const Rows& rows, const std::vector<Query>& queries) {
  std::vector<const float*> q;
  std::vector<std::int32_t> first, last;
  for (const Query& query : queries) {
    q.push_back(query.padded.data());
    first.push_back(query.first);
    last.push_back(query.last);
  }
  const std::size_t stride = state_floats(rows.shape.value);
  std::vector<float> states(stride * queries.size());
  const auto leaves = rows.places();
  table.attend({.type = rows.type,
                .shape = rows.shape,
                .leaves = leaves.data(),
                .offset = 0,
                .queries = static_cast<int>(queries.size()),
                .q = q.data(),
                .first = first.data(),
                .last = last.data(),
                .scale = 0.1f,
                .soft_cap = 0,
                .state = states.data(),
                .state_stride = stride});
  return states;
}

std::vector<double> exact(const Rows& rows, const Query& query) {
  const auto width = static_cast<std::size_t>(rows.shape.key);
  std::vector<double> s, out(static_cast<std::size_t>(rows.shape.value), 0.0);
  double top = -INFINITY, l = 0;
  for (int key = query.first; key < query.last; ++key) {
    double x = 0;
    for (std::size_t j = 0; j < width; ++j)
      x += static_cast<double>(query.padded[j]) * rows.k[static_cast<std::size_t>(key) * width + j];
    s.push_back(static_cast<double>(0.1f) * x);
    top = std::max(top, s.back());
  }
  for (double& x : s) l += x = std::exp(x - top);
  for (std::size_t i = 0; i < s.size(); ++i)
    for (std::size_t j = 0; j < out.size(); ++j)
      out[j] += s[i] / l * rows.k[(static_cast<std::size_t>(query.first) + i) * width + j];
  return out;
}

std::vector<float> padded_query(int d, Random& random) {
  std::vector<float> q(static_cast<std::size_t>((d + 15) / 16 * 16), 0.0f);
  std::generate_n(q.begin(), d, [&] { return normal(random); });
  return q;
}

class AttendRows : public ::testing::TestWithParam<Storage> {};

TEST_P(AttendRows, AgreeWithDouble) {
  for (const Kernels* table : levels())
    for (const auto [key, value] : kShapes) {
      if (!kv_leaf_bytes(GetParam(), {key, value, true})) continue;
      SCOPED_TRACE(std::string(table->name) + " " + std::to_string(key));
      Random random(key + value);
      const Rows rows(*table, GetParam(), {key, value, true}, 200, random);
      std::vector<Query> queries;
      for (const auto& [first, last] :
           {std::pair{0, 200}, {0, 1}, {63, 65}, {130, 200}, {7, 64}, {64, 128}, {199, 200}})
        queries.push_back({padded_query(key, random), first, last});
      const auto together = run(*table, rows, queries);
      const std::size_t stride = state_floats(value);
      std::vector<float> out(static_cast<std::size_t>(value));
      for (std::size_t i = 0; i < queries.size(); ++i) {
        const float* state = together.data() + i * stride;
        table->finish(state, value, nullptr, out.data());
        const auto wanted = exact(rows, queries[i]);
        for (std::size_t j = 0; j < out.size(); ++j)
          ASSERT_NEAR(out[j], wanted[j], (std::sqrt(key) + 24) * 0x1p-20) << "query " << i << " column " << j;
        const auto alone = run(*table, rows, {queries[i]});
        ASSERT_EQ(std::memcmp(alone.data(), state, (stride - 15) * sizeof(float)), 0) << "query " << i << " alone";
      }
    }
}

TEST_P(AttendRows, IndexScoresAreWeightedMatches) {
  constexpr int kHeads = 11;
  for (const Kernels* table : levels())
    for (const int d : {32, 20, 128}) {
      if (!kv_leaf_bytes(GetParam(), {d, d, true})) continue;
      Random random(d);
      const Rows rows(*table, GetParam(), {d, d, true}, kLeafKeys, random);
      Guarded<float> q(static_cast<std::size_t>(kHeads * d)), weights(kHeads), scores(kLeafKeys);
      std::generate(q.begin(), q.end(), [&] { return normal(random); });
      std::generate(weights.begin(), weights.end(), [&] { return normal(random); });
      table->index_scores({GetParam(), d, rows.leaves.data(), kHeads, q.data(), weights.data(), 0.2f, scores.data()});
      for (std::size_t key = 0; key < kLeafKeys; ++key) {
        double wanted = 0, size = 0;
        for (std::size_t h = 0; h < kHeads; ++h) {
          double match = 0;
          for (std::size_t j = 0; j < static_cast<std::size_t>(d); ++j)
            match += static_cast<double>(q[h * static_cast<std::size_t>(d) + j]) *
                     rows.k[key * static_cast<std::size_t>(d) + j];
          wanted += static_cast<double>(weights[h]) * std::max(0.0, static_cast<double>(0.2f) * match);
          size += std::abs(static_cast<double>(weights[h]) * match);
        }
        ASSERT_NEAR(scores[key], wanted, (size + 1) * 0x1p-20) << "key " << key;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, AttendRows, ::testing::Values(Storage::f32, Storage::f16, Storage::bf16, Storage::q8_0),
                         storage_name);

}  // namespace
}  // namespace fourfold::simd::test
