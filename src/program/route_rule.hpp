// The policy type (route_rules.hpp) behind a RouteRule.
#pragma once

#include <fourfold/route_rules.hpp>
#include <span>

#include "fourfold/program.hpp"

namespace fourfold {
namespace detail {

template <class R, class F>
void with_groups(const RouteRule& rule, R policy, F&& f) {
  if (rule.groups == 1) return f(policy);
  f(GroupLimited<R>{policy, rule.groups, rule.kept_groups, rule.group_best});
}

template <template <Normalise> class R, class F>
void with_biased(const RouteRule& rule, std::span<const float> bias, F&& f) {
  if (rule.renormalise) return with_groups(rule, R<Normalise::over_selected>{bias, rule.scale}, f);
  with_groups(rule, R<Normalise::none>{bias, rule.scale}, f);
}

}  // namespace detail

// Calls f with the policy that `rule` names. bias: selection_bias, or empty; a softmax has none.
template <class F>
void with_rule(const RouteRule& rule, std::span<const float> bias, F&& f) {
  using enum RouteRule::Score;
  if (rule.score == sigmoid) return detail::with_biased<BiasedSigmoid>(rule, bias, f);
  if (rule.score == sqrt_softplus) return detail::with_biased<BiasedSqrtSoftplus>(rule, bias, f);
  if (rule.renormalise) return detail::with_groups(rule, Softmax<Normalise::over_selected>{rule.scale}, f);
  detail::with_groups(rule, Softmax<Normalise::over_all>{rule.scale}, f);
}

}  // namespace fourfold
