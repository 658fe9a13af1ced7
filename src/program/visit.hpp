// Overloaded: one lambda per alternative, for std::visit.
#pragma once

#include <variant>

namespace fourfold {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang before 17 does not deduce aggregates

}  // namespace fourfold
