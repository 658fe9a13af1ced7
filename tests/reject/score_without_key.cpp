// expect: Score needs `operator()(float s, int query, int key)` -> number
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Sharpen {
  constexpr float operator()(float s) const { return 2 * s; }  // wrong
  // right: constexpr float operator()(float s, int, int) const { return 2 * s; }
};

Fold attention{Causal{}, Sharpen{}, OnlineSoftmax{}};
