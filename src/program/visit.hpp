// Overloaded: one lambda per alternative, for std::visit.
#pragma once

#include <variant>

namespace fourfold {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace fourfold
