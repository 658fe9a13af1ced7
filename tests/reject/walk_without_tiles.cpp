// expect: Walk needs `tiles(Range queries)` -> a sequence of Range
#include <fourfold/fold.hpp>

using namespace fourfold;

struct Nearby {
  int size;
  constexpr bool visible(int query, int key) const { return query - key < size; }
  constexpr int tiles(Range queries) const { return queries.size() + size; }  // wrong
  // right: constexpr auto tiles(Range queries) const { return ranges({queries.first - size + 1, queries.end}); }
};

Fold attention{Nearby{8}, Scale{0.125f}, OnlineSoftmax{}};
