// expect: Rule needs `static constexpr Normalise normalise`
#include <fourfold/route.hpp>

using namespace fourfold;

struct Sigmoid {
  // right: static constexpr auto normalise = Normalise::none;
  constexpr float select(float z, int) const { return z; }
  constexpr float weight(float z, int) const { return sigmoid(z); }
};

Route route{Sigmoid{}, 2};
