// Routed layers on the team executor against the definition: from 1 to 896 experts, 1 to 22 chosen, one token and more
// than a tile of them, tokens spread out, and all sent to the same experts (fault M5).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/team/team.hpp"
#include "models/random_weights.hpp"
#include "program/builder.hpp"
#include "program/reference.hpp"

namespace fourfold {
namespace {

constexpr int kWidth = 32, kRows = 24, kVocab = 61, kTokens = 300;

// Random weights, but a selection bias that sends every token to the first experts where `crowded`.
class Bytes : public WeightBytes {
 public:
  explicit Bytes(int crowded) : crowded_(crowded) {}
  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override {
    if (tensor.name != "bias") return random_.read(tensor, offset, out);
    for (std::size_t i = 0; i < out.size() / sizeof(float); ++i) {
      const float bias = offset / sizeof(float) + i < static_cast<std::size_t>(crowded_) ? 100 : 0;
      std::memcpy(out.data() + i * sizeof bias, &bias, sizeof bias);
    }
    return {};
  }

 private:
  RandomWeights random_{7};
  int crowded_;
};

Program make_program(int experts, int chosen) {
  std::vector<TensorSpec> tensors;
  const auto tensor = [&](const std::string& name, int rows, int cols, int stack = 1) {
    tensors.push_back({name, Storage::f32, rows, cols, 0, stack});
    return Weight{static_cast<int>(tensors.size()) - 1};
  };
  Builder b{tensors};
  const Weight table = tensor("table", kVocab, kWidth);
  const Value x = b.embed(table);
  const Input in = rms(x, {tensor("norm", 1, kWidth), 1e-6f});
  const auto routed =
      b.route(in, {tensor("router", experts, kWidth)},
              {.score = RouteRule::Score::sigmoid, .chosen = chosen, .renormalise = true}, tensor("bias", 1, experts));
  const Value m = b.experts("gate_up", in, routed,
                            {{tensor("gate", kRows, kWidth, experts)}, {tensor("up", kRows, kWidth, experts)}},
                            {.activation = Activation::silu});
  const Value made = b.experts("down", {m}, routed, {{tensor("down", kWidth, kRows, experts)}}, {.per_choice = true});
  const Value y = b.combine(made, routed, {.x = x});
  return std::move(b).logits(rms(y, {tensor("output_norm", 1, kWidth), 1e-6f}), table);
}

std::vector<float> logits_of(result<std::unique_ptr<Backend>> backend, int tokens) {
  if (!backend.ok()) throw std::runtime_error(backend.error().message());
  auto executor = (*backend)->plan({.context = kTokens, .batch = kTokens, .cache = Storage::f32});
  if (!executor.ok()) throw std::runtime_error(executor.error().message());
  std::vector<int> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(i * 37 % kVocab);
  std::vector<float> logits(static_cast<std::size_t>(tokens) * kVocab);
  EXPECT_TRUE((*executor)->forward(ids, 0, tokens, logits.data()).ok());
  return logits;
}

void expect_team_is_the_definition(int experts, int chosen, bool crowded) {
  const Program program = make_program(experts, chosen);
  const Bytes bytes(crowded ? chosen : 0);
  for (const int tokens : {1, kTokens}) {
    const auto exact = logits_of(make_reference(program, bytes, {}, true), tokens);
    const auto team = logits_of(make_team(program, bytes, {.threads = 2, .f32 = true}), tokens);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      error += std::pow(double{team[i]} - double{exact[i]}, 2);
      size += std::pow(double{exact[i]}, 2);
    }
    EXPECT_LE(std::sqrt(error / size), 1e-5)
        << experts << " experts, " << chosen << " chosen, " << tokens << " tokens, crowded " << crowded;
  }
}

TEST(Routed, ExpertCounts) {
  for (const int experts : {1, 7, 64, 256, 896}) expect_team_is_the_definition(experts, std::min(experts, 8), false);
}
TEST(Routed, ChosenCounts) {
  for (int chosen = 1; chosen <= 22; ++chosen) expect_team_is_the_definition(64, chosen, false);
}
TEST(Routed, AllTokensToTheSameExperts) {
  for (const auto& [experts, chosen] : {std::pair(7, 1), {896, 1}, {64, 22}})
    expect_team_is_the_definition(experts, chosen, true);
}

}  // namespace
}  // namespace fourfold
