// expect: Scan rule needs `transition(const Token&)` -> an operator such as Scaled
#include <fourfold/scan.hpp>

using namespace fourfold;

struct Retention {
  constexpr float transition(const Token& t) const { return t.alpha; }  // wrong
  // right: constexpr auto transition(const Token& t) const { return Scaled{t.alpha}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

Scan scan{Retention{}};
