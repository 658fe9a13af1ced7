// Step 4: a scan keeps one state of fixed size in place of every earlier key. The rule is written here; the library's
// own are in mechanisms.hpp. On threads it runs in the chunk kernels, as its operators have a form that those take.
#include <fourfold/scan.hpp>

#include "example.hpp"

using namespace fourfold;

struct LeakyDelta {  // S <- a (I - b k k^T) S + (1 - a) b k v^T: a delta rule that writes what its decay lets go
  constexpr auto transition(const Token& t) const { return Scaled{t.alpha} * (Identity{} - RankOne{t.beta, t.k, t.k}); }
  constexpr auto update(const Token& t) const { return RankOne{(1 - t.alpha) * t.beta, t.k, t.v}; }
};

int main() {
  const int T = 200, H = 2, D = 16;
  auto k = numbers(T * H * D, 2);
  const auto q = numbers(T * H * D, 1), v = numbers(T * H * D, 3);
  for (int row = 0; row < T * H; ++row) {  // unit keys keep the delta rule stable
    float norm = 0;
    for (int d = 0; d < D; ++d) norm += k[row * D + d] * k[row * D + d];
    for (int d = 0; d < D; ++d) k[row * D + d] /= std::sqrt(norm);
  }
  const std::vector<float> alpha(T * H, 0.97f), beta(T * H, 0.5f);

  // Tokens [first, last) of every head, going on from `states` [heads, D * D].
  const auto run = [&](const auto& executor, int first, int last, std::vector<float>& states) {
    const int n = last - first;
    const auto part = [&](const std::vector<float>& x) { return Heads{Rows{&x[first * H * D], n, H * D}, H}; };
    std::vector<float> out(n * H * D);
    const status s = Scan{LeakyDelta{}}.on(executor).run(
        ScanTokens{part(q), part(k), part(v), Rows{&alpha[first * H], n, H}, Rows{&beta[first * H], n, H}},
        Heads{Rows{out.data(), n, H * D}, H}, Rows{states.data(), H, D * D});
    if (!s) std::printf("%s\n", s.message().c_str()), std::exit(1);
    return out;
  };
  std::vector<float> states(H * D * D), same(H * D * D), steps(H * D * D), decoded;
  const auto exact = run(reference, 0, T, states);
  check("2 threads against double", run(Team{2}, 0, T, same), exact, 1e-6);
  check("and the state they leave", same, states, 1e-6);
  for (int t = 0; t < T; ++t)
    for (float x : run(Team{1}, t, t + 1, steps)) decoded.push_back(x);
  check("token by token, as decoding does", decoded, exact, 1e-6);
}
