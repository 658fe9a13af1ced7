// Step 5: a mixture of experts. A rule chooses experts per token; a dispatch sorts the choices into dense tiles; a fold
// walks them, each with its expert's matrix; combine adds the results back, weighted.
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
  std::vector<float> weights(T * K), exact(T * K), made(T * K * F), out(T * F);
  const Rows z(logits.data(), T, E);
  const Rows chosen(weights.data(), T, K), products(made.data(), T * K, F);

  const auto moe = [&](const auto& rule) -> status {
    const Route route(rule, K);
    FOURFOLD_TRY(route.on(reference).choose(z, {ids.data(), T, K}, {exact.data(), T, K}));
    FOURFOLD_TRY(route.on(Team{2}).choose(z, {ids.data(), T, K}, chosen));
    const auto dispatch = Dispatch::make({ids.data(), T, K}, E, 4);
    if (!dispatch) return dispatch.error();
    const Fold multiply{Full{}, Sum{}};
    FOURFOLD_TRY(
        multiply.on(Team{2}).multiply(Rows{x.data(), T, D}, Rows{experts.data(), E * F, D}, *dispatch, products));
    return dispatch->combine({made.data(), T * K, F}, {weights.data(), T, K}, {out.data(), T, F});
  };
  const auto run = [&](const char* name, const auto& rule) {
    if (const status s = moe(rule); !s) std::printf("%s\n", s.message().c_str()), std::exit(1);
    std::vector<float> dense(T * F);  // every token times each of its experts
    for (int slot = 0; slot < T * K; ++slot)
      for (int f = 0; f < F; ++f)
        for (int d = 0; d < D; ++d)
          dense[slot / K * F + f] += weights[slot] * x[slot / K * D + d] * experts[(ids[slot] * F + f) * D + d];
    check(name, weights, exact, 1e-6);  // threads against the definition
    check(name, out, dense, 2e-5);
  };
  run("softmax over the 2 chosen of 8", Softmax<Normalise::over_selected>{});
  run("sigmoid, chosen with a bias", SigmoidBias{bias, 2.5f});
}
