// expect: Rule needs `weight(float z, int expert)` or `log_weight(float z, int expert)` -> number
#include <fourfold/route.hpp>

using namespace fourfold;

struct Sigmoid {
  static constexpr auto normalise = Normalise::none;
  constexpr float select(float z, int) const { return z; }
  constexpr float weight(float z) const { return sigmoid(z); }  // wrong
  // right: constexpr float weight(float z, int) const { return sigmoid(z); }
};

Route route{Sigmoid{}, 2};
