// expect: Epilogue of a reduction needs `operator()(x, row, column)`, and a result that is a number
#include <fourfold/fold.hpp>

using namespace fourfold;

status energies(Rows<const float> x, const float* weight, std::span<float> out) {
  const Fold energy{Full{}, Plain{}, Sum{}, RmsNorm{weight, 1e-5f}};  // wrong
  // right: const Fold energy{Full{}, Plain{}, Sum{}, Scale{*weight}};
  return energy.on(reference).reduce(x, out);
}
