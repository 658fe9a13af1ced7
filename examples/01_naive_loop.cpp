// Step 1 of the ladder: causal attention as everyone writes it first, with no library at all.
//
// T tokens, D head dim. Every row is written out three times: scores, weights, weighted sum. Correct, and slow for a
// long row: the scores are stored, and nothing is shared between queries. Step 2 says the same as a fold.
#include "example.hpp"

std::vector<float> attention(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                             int T, int D) {
  std::vector<float> out(q.size());
  for (int query = 0; query < T; ++query) {
    std::vector<float> weight(query + 1);
    float most = -INFINITY, sum = 0;
    for (int key = 0; key <= query; ++key) {
      for (int d = 0; d < D; ++d) weight[key] += q[query * D + d] * k[key * D + d];
      weight[key] /= std::sqrt(float(D));
      most = std::fmax(most, weight[key]);
    }
    for (float& w : weight) sum += w = std::exp(w - most);
    for (int key = 0; key <= query; ++key)
      for (int d = 0; d < D; ++d) out[query * D + d] += weight[key] / sum * v[key * D + d];
  }
  return out;
}

int main() {
  const int T = 100, D = 32;
  const auto q = numbers(T * D, 1), k = numbers(T * D, 2), v = numbers(T * D, 3);
  const auto out = attention(q, k, v, T, D);

  // The weights of a row sum to 1, and the first token sees itself alone.
  check("a mean of ones is one", attention(q, k, std::vector<float>(T * D, 1.f), T, D), std::vector<float>(T * D, 1.f),
        1e-5);
  check("the first token answers with its own value", {out.begin(), out.begin() + D}, {v.begin(), v.begin() + D}, 0);
}
