// expect: Walk needs `visible(int query, int key)` -> bool
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Nearby {
  int size;
  // right: constexpr bool visible(int query, int key) const { return query - key < size; }
  constexpr auto tiles(Range queries) const { return ranges({queries.first - size + 1, queries.end}); }
};

Fold attention{Nearby{8}, Scale{0.125f}, OnlineSoftmax{}};
