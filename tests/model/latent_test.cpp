// Latent attention: the expanded and the absorbed form agree to float32 rounding, and each keeps its bits for any
// number of threads.
#include <cstring>

#include "support/golden.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

using test::relative_rms;

constexpr int kIds = 80;  // more than it takes to expand

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Latents : public testing::TestWithParam<const char*> {
 protected:
  std::vector<float> logits(int threads, int chunk) const {
    return test::all_logits(model_, {.threads = threads, .f32 = true}, test::some_ids(kIds, model_.vocab()), chunk);
  }
  Model model_ = test::open_model(GetParam());
};

TEST_P(Latents, FormsAgree) {
  const auto expanded = logits(2, 512);
  for (int chunk : {1, 5, 64}) EXPECT_LE(relative_rms(logits(2, chunk), expanded), 1e-5) << chunk;
}

TEST_P(Latents, KeepTheirBitsForAnyThreads) {
  for (int chunk : {1, 5, 512}) {
    const auto alone = logits(1, chunk);
    for (int threads : {2, 7}) EXPECT_TRUE(same_bits(logits(threads, chunk), alone)) << threads << ", " << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Latents,
                         testing::Values("variants/deepseek_v2_plain", "variants/deepseek_v3_yarn",
                                         "variants/deepseek_v3_halves", "variants/deepseek_v32",
                                         "variants/gguf_deepseek2_split.gguf"),
                         [](const auto& info) { return test::test_name(info.param); });

// Both forms run: a prompt and the same ids one by one do not give the same bits.
TEST(LatentForms, AreTwo) {
  const Model model = test::open_model("variants/deepseek_v3_yarn");
  const auto ids = test::some_ids(kIds, model.vocab());
  const SessionOptions options{.threads = 2, .f32 = true};
  EXPECT_FALSE(same_bits(test::all_logits(model, options, ids, 512), test::all_logits(model, options, ids, 1)));
}

}  // namespace
}  // namespace fourfold
