// expect: Monoid needs `lift(weight, x)` -> State to attend
#include <fourfold/fold.hpp>

using namespace fourfold;

status attend(Heads<Rows<const float>> q, Heads<Rows<float>> out) {
  const Fold attention{Causal{}, Scale{1}, Max{}};  // wrong
  // right: const Fold attention{Causal{}, Scale{1}, OnlineSoftmax{}};
  return attention.on(reference).attend(q, q, q, out);
}
