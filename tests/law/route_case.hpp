// What the tests of routing share: a choice of experts as vectors.
#pragma once

#include <gtest/gtest.h>

#include <fourfold/route.hpp>
#include <vector>

namespace fourfold::test {

struct Chosen {
  std::vector<int> ids;
  std::vector<float> weights;
};
template <class R, class X>
Chosen choose(const R& rule, int k, const std::vector<float>& logits, int experts, const X& executor) {
  const int tokens = static_cast<int>(logits.size()) / experts;
  Chosen c{std::vector<int>(tokens * k), std::vector<float>(tokens * k)};
  const status s = Route{rule, k}.on(executor).choose(Rows{logits.data(), tokens, experts}, {c.ids.data(), tokens, k},
                                                      {c.weights.data(), tokens, k});
  EXPECT_TRUE(s.ok()) << s.message();
  return c;
}

}  // namespace fourfold::test
