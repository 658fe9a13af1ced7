// Random operands of a scan, and how far two results are apart.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/mechanisms.hpp>
#include <fourfold/scan.hpp>
#include <vector>

#include "random.hpp"

namespace fourfold::test {

struct ScanCase {
  int tokens, heads, keys, values, key_heads;
  std::vector<float> q, k, v, alpha, beta, gate, a, b, dt, out, state;

  ScanCase(Random& random, int tokens, int heads, int keys, int values, int key_heads = 0)
      : tokens(tokens), heads(heads), keys(keys), values(values), key_heads(key_heads ? key_heads : heads) {
    const std::size_t vectors = std::size_t(tokens) * heads, key_vectors = std::size_t(tokens) * this->key_heads;
    q = random.normals(key_vectors * keys);
    k = random.normals(key_vectors * keys, 1 / std::sqrt(float(keys)));
    v = random.normals(vectors * values);
    for (std::size_t i = 0; i < vectors; ++i)
      alpha.push_back(random.uniform(0.7f, 1)), beta.push_back(random.uniform(0, 1));
    for (std::size_t i = 0; i < vectors * keys; ++i) gate.push_back(random.uniform(0.5f, 1));
    for (std::size_t i = 0; i < vectors * values; ++i) dt.push_back(random.uniform(0, 1));
    a = random.normals(vectors * keys, 0.5f / std::sqrt(float(keys)));
    b = random.normals(vectors * keys, 0.5f / std::sqrt(float(keys)));
    out.assign(vectors * values, -7.f);
    state = random.normals(std::size_t(heads) * keys * values);
  }
  auto input() const {
    const auto rows = [&](const std::vector<float>& x, int width) {
      return Rows<const float>{x.data(), tokens, width};
    };
    return ScanTokens{Heads{rows(q, key_heads * keys), key_heads},
                      Heads{rows(k, key_heads * keys), key_heads},
                      Heads{rows(v, heads * values), heads},
                      rows(alpha, heads),
                      rows(beta, heads),
                      rows(gate, heads * keys),
                      rows(a, heads * keys),
                      rows(b, heads * keys),
                      rows(dt, heads * values)};
  }
  Heads<Rows<float>> out_view() { return {{out.data(), tokens, heads * values}, heads}; }
  Rows<float> state_view(int sequences = 1) { return {state.data(), sequences * heads, keys * values}; }
  template <class R, class X>
  status run(const R& rule, const X& executor) {
    return Scan{rule}.on(executor).run(input(), out_view(), state_view());
  }
  // The tokens [first, end) with the state as it stands.
  ScanCase part(int first, int end) const {
    ScanCase c = *this;
    c.tokens = end - first;
    for (auto x : {&ScanCase::q, &ScanCase::k, &ScanCase::v, &ScanCase::alpha, &ScanCase::beta, &ScanCase::gate,
                   &ScanCase::a, &ScanCase::b, &ScanCase::dt, &ScanCase::out}) {
      const std::size_t width = (this->*x).size() / static_cast<std::size_t>(tokens);
      (c.*x).assign((this->*x).begin() + static_cast<std::ptrdiff_t>(first * width),
                    (this->*x).begin() + static_cast<std::ptrdiff_t>(end * width));
    }
    return c;
  }
  void scale_keys_to_one() {
    for (std::size_t row = 0; row < k.size(); row += keys) {
      float squares = 0;
      for (int i = 0; i < keys; ++i) squares += k[row + i] * k[row + i];
      for (int i = 0; i < keys; ++i) k[row + i] /= std::sqrt(squares);
    }
  }
};

inline double relative_rms(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, size = 0;
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(std::isfinite(got[i])) << i;
    error += std::pow(double(got[i]) - double(want[i]), 2);
    size += std::pow(double(want[i]), 2);
  }
  return std::sqrt(error / size);
}

}  // namespace fourfold::test
