// What the reference's steps work on: Values, caches and running states, as arrays of T (double or float).
#pragma once

#include <cstddef>
#include <vector>

#include "fourfold/program.hpp"

namespace fourfold {

// Where a step finds its Values and the keys and values that earlier tokens left.
template <class T>
struct ReferenceState {
  const Program* program;
  std::vector<std::vector<T>> values;  // per Value: [tokens, width]
  struct Cache {
    std::vector<T> keys, values;  // [position, kv_heads, head_dim] and [position, kv_heads, values()]
  };
  std::vector<Cache> caches;
  std::vector<std::vector<T>> states;  // as StateSpec lays them out
  std::vector<int> ids;
  int position = 0;  // of ids[0]
  int wanted = 0;

  int tokens() const { return static_cast<int>(ids.size()); }
  T* at(Value v, int token) {
    return values[static_cast<std::size_t>(v.id)].data() + static_cast<std::ptrdiff_t>(token) * program->width(v);
  }
  // Number i of an operand.
  T at(const Columns& c, int token, int i) { return static_cast<T>(c.scale) * at(c.value, token)[c.at(i)]; }
  // Running states start from 0 in front of a sequence's first token.
  void clear_states() {
    states.resize(program->states.size());
    for (std::size_t s = 0; s < states.size(); ++s)
      states[s].assign(static_cast<std::size_t>(program->states[s].numbers()), T{0});
  }
};

}  // namespace fourfold
