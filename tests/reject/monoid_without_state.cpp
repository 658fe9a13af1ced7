// expect: Monoid needs a type `State`
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Energy {
  // right: using State = float;
  static constexpr bool commutative = true;
  constexpr float identity() const { return 0; }
  constexpr float lift(float x) const { return x * x; }
  constexpr float combine(float a, float b) const { return a + b; }
  constexpr float finish(float s) const { return s; }
};

Fold energy{Full{}, Plain{}, Energy{}};
