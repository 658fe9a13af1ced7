// Routed models: the experts chosen are the stored ones, and the same for any chunks and executor.
#include "engine/chosen_experts.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

using test::Golden;

std::vector<ChosenExperts> chosen_by(const Model& model, SessionOptions options, std::span<const int> ids, int chunk) {
  auto layers = routed_layers(model.program());
  options.debug = true;
  auto session = model.session(options);
  EXPECT_TRUE(session.ok()) << session.error().message();
  for (std::size_t first = 0; session.ok() && first < ids.size(); first += static_cast<std::size_t>(chunk)) {
    const auto part = ids.subspan(first, std::min(static_cast<std::size_t>(chunk), ids.size() - first));
    EXPECT_TRUE(session->eval(part).ok());
    append_chosen(*session, static_cast<int>(part.size()), layers);
  }
  return layers;
}

TEST(ChosenExperts, AreTheStoredOnes) {
  const Golden golden(test::kModels + "qwen3_moe/golden.safetensors");
  const auto ids = golden.integers("prompt0.ids");
  const Model model = test::open_model("qwen3_moe");
  for (const char* executor : {"team", "reference", "reference-f32"})
    for (int chunk : {1, 5, 64}) {
      const auto layers = chosen_by(model, {.executor = executor, .threads = 2, .f32 = true}, ids, chunk);
      ASSERT_EQ(layers.size(), 3u) << "layer 1 is dense";
      for (const ChosenExperts& layer : layers) {
        const auto stored = golden.integers("prompt0.layer" + layer.layer + ".experts");
        std::vector<int> flat;
        for (const auto& row : layer.chosen) flat.insert(flat.end(), row.begin(), row.end());
        EXPECT_EQ(flat, stored) << executor << " layer " << layer.layer << " chunk " << chunk;
      }
    }
}

TEST(ChosenExperts, DenseModelsHaveNone) { EXPECT_TRUE(routed_layers(test::open_model("llama").program()).empty()); }

}  // namespace
}  // namespace fourfold
