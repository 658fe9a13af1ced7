// Every activation as a gate, in a feed-forward part and in experts: the team computes what the reference does.
#include "support/golden.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

constexpr int kIds = 20;

class Gates : public testing::TestWithParam<Activation> {
 protected:
  static double distance(const char* name) {
    const Model model = test::open_model(name).with([](Program& program) {
      for (Step& step : program.steps) {
        auto* project = std::get_if<Project>(&step.op);
        if (auto* gated = project ? std::get_if<Gated>(&project->epilogue) : nullptr) gated->activation = GetParam();
        if (auto* experts = std::get_if<Experts>(&step.op)) experts->activation = GetParam();
      }
    });
    const auto ids = test::some_ids(kIds, model.vocab());
    const auto logits = [&](const char* executor) {
      return test::all_logits(model, {.executor = executor, .threads = 2, .f32 = true}, ids, 512);
    };
    return test::relative_rms(logits("team"), logits("reference"));
  }
};

TEST_P(Gates, OfAFeedForwardPart) { EXPECT_LT(distance("llama"), 1e-5); }
TEST_P(Gates, OfExperts) { EXPECT_LT(distance("qwen3_moe"), 1e-5); }

INSTANTIATE_TEST_SUITE_P(Activations, Gates,
                         testing::Values(Activation::silu, Activation::gelu_tanh, Activation::none, Activation::sigmoid,
                                         Activation::relu_squared));

}  // namespace
}  // namespace fourfold
