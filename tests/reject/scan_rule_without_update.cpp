// expect: Scan rule needs `update(const Token&)` -> RankOne
#include <fourfold/scan.hpp>

using namespace fourfold;

struct Retention {
  constexpr auto transition(const Token& t) const { return Scaled{t.alpha}; }
  // right: constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

Scan scan{Retention{}};
