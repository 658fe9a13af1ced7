// expect: Monoid needs `identity()` -> State
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Energy {
  struct State {
    float norm;
  };
  static constexpr bool commutative = true;
  // right: constexpr State identity() const { return {0}; }
  constexpr State lift(float x) const { return {x * x}; }
  constexpr State combine(State a, State b) const { return {a.norm + b.norm}; }
  constexpr float finish(State s) const { return s.norm; }
};

Fold energy{Full{}, Plain{}, Energy{}};
