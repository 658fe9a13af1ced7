// Families with running states against logits of double precision, greedy text, and numbers of threads.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "engine/check.hpp"
#include "engine/checkpoint_bytes.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

using test::Golden;
using test::relative_rms;

constexpr double kReference = 1e-5;  // the stored logits are float32
constexpr double kFloat32 = 1e-4;    // as the goldens of other families are judged
constexpr double kTurned = 0.3;      // when one token of a prompt chooses another expert

class Hybrids : public testing::TestWithParam<const char*> {
 protected:
  std::string folder() const { return "hybrids/" + std::string(GetParam()); }
  Golden golden() const { return Golden(test::kModels + folder() + "/golden.safetensors"); }

  // Of prompt `p`, at the positions stored.
  double error(const SessionOptions& options, int p) const {
    const Golden stored = golden();
    const std::string prompt = "prompt" + std::to_string(p) + ".";
    const Model model = test::open_model(folder());
    const auto all = test::all_logits(model, options, stored.integers(prompt + "ids"), 512);
    const auto vocab = static_cast<std::ptrdiff_t>(model.vocab());
    std::vector<float> kept;
    for (int position : stored.integers(prompt + "positions"))
      kept.insert(kept.end(), all.begin() + position * vocab, all.begin() + (position + 1) * vocab);
    return relative_rms(kept, stored.floats(prompt + "logits"));
  }
};

TEST_P(Hybrids, Reference) {
  for (int p = 0; p < 3; ++p) EXPECT_LE(error({.executor = "reference"}, p), kReference) << "prompt " << p;
}

TEST_P(Hybrids, TeamWithFloat32) {
  for (int p = 0; p < 3; ++p) EXPECT_LE(error({.threads = 2, .f32 = true}, p), kFloat32) << "prompt " << p;
}

// Where experts are chosen, rounded activations may turn a near tie around: one token then reads another expert.
TEST_P(Hybrids, Team) {
  std::ifstream in(test::kModels + folder() + "/golden.json");
  const auto fair = nlohmann::json::parse(in).at("fair_bf16_tol");
  const Model model = test::open_model(folder());
  const auto& steps = model.program().steps;
  const bool routed = std::any_of(steps.begin(), steps.end(),
                                  [](const Step& step) { return std::holds_alternative<RouteStep>(step.op); });
  for (int p = 0; p < 3; ++p) {
    const double stored = fair[static_cast<std::size_t>(p)];
    EXPECT_LE(error({.threads = 2}, p), routed ? std::max(stored, kTurned) : stored) << "prompt " << p;
  }
}

TEST_P(Hybrids, GreedyIdsAreTheStoredOnes) {
  const Golden stored = golden();
  auto session = test::open_model(folder()).session({.threads = 2, .f32 = true});
  ASSERT_TRUE(session.ok()) << session.error().message();
  const auto prompt = stored.integers("prompt0.ids"), expected = stored.integers("prompt0.greedy");
  auto text = session->generate(
      std::span<const int>(prompt),
      {.max_tokens = static_cast<int>(expected.size()), .sampling = {.temperature = 0}, .ignore_eos = true});
  while (text.next()) continue;
  EXPECT_EQ(std::vector<int>(text.ids().begin(), text.ids().end()), expected);
}

TEST_P(Hybrids, NumbersOfThreadsGiveTheSameBits) {
  const Model model = test::open_model(folder());
  const auto ids = test::some_ids(150, model.vocab());
  for (int chunk : {1, 5, 64}) {
    const auto one = test::all_logits(model, {.threads = 1, .f32 = true}, ids, chunk);
    EXPECT_EQ(test::all_logits(model, {.threads = 3, .f32 = true}, ids, chunk), one) << "chunks of " << chunk;
  }
}

TEST_P(Hybrids, EveryStepAgreesWithTheReference) {
  const auto checkpoint = open_checkpoint(test::kModels + folder());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  const Model model = test::open_model(folder());
  const auto checks =
      check_against_reference(model, {.threads = 2}, CheckpointBytes(*checkpoint), test::some_ids(75, model.vocab()));
  ASSERT_TRUE(checks.ok()) << checks.error().message();
  for (const StepCheck& check : *checks)
    EXPECT_TRUE(check.ok()) << check.step << " " << check.output << " " << check.distance;
}

INSTANTIATE_TEST_SUITE_P(Families, Hybrids,
                         testing::Values("bailing_hybrid", "bamba", "bamba_whole", "falcon_h1", "granitemoehybrid",
                                         "granitemoehybrid_dense", "kimi_linear", "lfm2", "mamba", "minimax",
                                         "nemotron_h", "nemotron_h_latent", "nemotron_h_step", "olmo_hybrid",
                                         "olmo_hybrid_nope", "qwen3_5", "qwen3_5_moe", "qwen3_next", "rwkv"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fourfold
