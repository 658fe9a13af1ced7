// expect: Epilogue needs `operator()(x, row, column)` -> number or `row(std::span<T>, int)`
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Double {
  constexpr float twice(float x) const { return 2 * x; }
  // right: constexpr float operator()(float x, int, int) const { return twice(x); }
};

Fold attention{Causal{}, Scale{1}, OnlineSoftmax{}, Double{}};
