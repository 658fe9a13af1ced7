// Step 5: a mixture of experts. A rule chooses experts per token; a dispatch sorts the choices into dense tiles; a fold
// multiplies each tile by one expert's matrix; combine adds the results back, weighted.
#include <fourfold/fold.hpp>
#include <fourfold/route.hpp>

#include "example.hpp"

using namespace fourfold;

struct SigmoidBias {  // selection may differ from weight           DeepSeek-V3, section 2.1.2
  std::span<const float> bias;
  float scale;
  static constexpr auto normalise = Normalise::over_selected;
  constexpr float select(float z, int expert) const { return sigmoid(z) + bias[expert]; }
  constexpr float weight(float z, int /*expert*/) const { return sigmoid(z); }
};

int main() {
  const int T = 40, E = 8, K = 2, D = 24, F = 16;  // tokens, experts, chosen, width in, width out
  const auto x = numbers(T * D, 1), logits = numbers(T * E, 2), experts = numbers(E * F * D, 3), bias = numbers(E, 4);
  std::vector<int> ids(T * K);
  std::vector<float> weights(T * K), exact(T * K), out(T * F), dense(T * F);

  const auto moe = [&](const auto& rule) -> status {
    FOURFOLD_TRY(
        Route(rule, K).on(reference).choose(Rows{logits.data(), T, E}, {ids.data(), T, K}, {exact.data(), T, K}));
    FOURFOLD_TRY(
        Route(rule, K).on(Team{2}).choose(Rows{logits.data(), T, E}, {ids.data(), T, K}, {weights.data(), T, K}));
    const auto dispatch = Dispatch::make({ids.data(), T, K}, E, 4);
    if (!dispatch) return dispatch.error();

    const Fold multiply{Full{}, Sum{}};
    std::vector<float> rows(dispatch->slots().size() * D), made(dispatch->slots().size() * F);
    for (std::size_t row = 0; row < dispatch->slots().size(); ++row)
      std::copy_n(&x[dispatch->slots()[row] / K * D], D, &rows[row * D]);
    for (const auto& tile : dispatch->tiles())
      FOURFOLD_TRY(multiply.on(Team{2}).multiply(Rows<const float>{&rows[tile.first * D], tile.rows, D},
                                                 Rows<const float>{&experts[tile.expert * F * D], F, D},
                                                 Rows{&made[tile.first * F], tile.rows, F}));
    return dispatch->combine({made.data(), T * K, F}, {weights.data(), T, K}, {out.data(), T, F});
  };
  const auto check_dense = [&](const char* name) {  // every expert for every token, most with weight 0
    std::fill(dense.begin(), dense.end(), 0.f);
    for (int slot = 0; slot < T * K; ++slot)
      for (int f = 0; f < F; ++f)
        for (int d = 0; d < D; ++d)
          dense[slot / K * F + f] += weights[slot] * x[slot / K * D + d] * experts[(ids[slot] * F + f) * D + d];
    check(name, weights, exact, 1e-6);  // threads against the definition
    check(name, out, dense, 2e-5);
  };
  if (!moe(Softmax<Normalise::over_selected>{})) return 1;
  check_dense("softmax over the 2 chosen of 8");
  if (!moe(SigmoidBias{bias, 2.5f})) return 1;
  check_dense("sigmoid, chosen with a bias");
}
