// expect: Load needs `operator()(row, column)`, `rows` and `columns`
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Ones {
  std::int64_t rows;
  // right: std::int64_t columns = 4;
  constexpr float operator()(std::int64_t, std::int64_t) const { return 1; }
};

status product(Rows<const float> a, Rows<float> out) {
  return Fold{Full{}, Sum{}}.on(reference).multiply(a, Ones{4}, out);
}
