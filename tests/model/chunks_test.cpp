// Every tiny model there is, however its prompt is cut: at once, in chunks of 64 and 5, and token by token. The same
// bits, or, where a scan or a latent sums in another order, the same to float32 rounding and the same decisive tokens.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "support/golden.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

constexpr double kRounding = 1e-5;
constexpr float kDecisive = 1e-3f;  // between the best logit and the next
constexpr int kTokens = 150;        // where the context has room

std::vector<std::string> every_model() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::kModels)) {
    const auto& path = entry.path();
    if (path.extension() == ".gguf" || (entry.is_directory() && std::filesystem::exists(path / "config.json")))
      names.push_back(std::filesystem::relative(path, test::kModels).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool sums_in_any_order(const Program& program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const Step& step) {
    const auto* attend = std::get_if<Attend>(&step.op);
    return std::holds_alternative<ScanStep>(step.op) || (attend && attend->latent);
  });
}

// Positions whose best token differs, where it is better than the next by kDecisive or more.
int changed_choices(std::span<const float> got, std::span<const float> expected, std::size_t vocab) {
  int changed = 0;
  for (std::size_t at = 0; at < expected.size(); at += vocab) {
    std::vector<float> sorted(expected.begin() + static_cast<std::ptrdiff_t>(at),
                              expected.begin() + static_cast<std::ptrdiff_t>(at + vocab));
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    const auto best = [&](std::span<const float> logits) {
      const auto row = logits.subspan(at, vocab);
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    changed += sorted[0] - sorted[1] >= kDecisive && best(got) != best(expected);
  }
  return changed;
}

class Chunks : public testing::TestWithParam<std::string> {};

TEST_P(Chunks, ChangeNothing) {
  const Model model = test::open_model(GetParam());
  const auto ids = test::some_ids(std::min(kTokens, model.program().context), model.vocab());
  const bool exact = !sums_in_any_order(model.program());
  for (const bool f32 : {true, false}) {
    if (!f32 && !exact) continue;
    const auto whole = test::all_logits(model, {.threads = 2, .f32 = f32}, ids, 512);
    for (const int chunk : {64, 5, 1}) {
      const auto cut = test::all_logits(model, {.threads = 2, .f32 = f32}, ids, chunk);
      if (exact) {
        ASSERT_EQ(cut.size(), whole.size());
        EXPECT_EQ(std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)), 0) << f32 << ", " << chunk;
      } else {
        EXPECT_LE(test::relative_rms(cut, whole), kRounding) << "chunks of " << chunk;
        EXPECT_EQ(changed_choices(cut, whole, static_cast<std::size_t>(model.vocab())), 0) << "chunks of " << chunk;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Chunks, testing::ValuesIn(every_model()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace fourfold
