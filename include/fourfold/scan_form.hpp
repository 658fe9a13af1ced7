// Which operators the scan kernels take, and as what: Identity, Scaled and Diagonal; Identity or Diagonal plus a matrix
// of rank one; any of these times a Scaled; Identity - b k k^T times a Diagonal, k being the update's own key.
#pragma once

#include <fourfold/affine.hpp>
#include <fourfold/scan_kernel.hpp>
#include <type_traits>

namespace fourfold {

template <class Op>
inline constexpr bool kHasScanForm = false;
template <>
inline constexpr bool kHasScanForm<Identity> = true;
template <>
inline constexpr bool kHasScanForm<Scaled> = true;
template <>
inline constexpr bool kHasScanForm<Diagonal> = true;
template <class D>
inline constexpr bool kHasScanForm<PlusRankOne<D>> = true;
template <class Op>
inline constexpr bool kHasScanForm<Product<Scaled, Op>> = kHasScanForm<Op>;
template <class Op>
inline constexpr bool kHasScanForm<Product<Op, Scaled>> = kHasScanForm<Op>;
template <>
inline constexpr bool kHasScanForm<Product<Scaled, Scaled>> = true;
template <>
inline constexpr bool kHasScanForm<Product<PlusRankOne<Identity>, Diagonal>> = true;

namespace detail {

// A token's transition in the terms of ScanToken.
struct ScanForm {
  const float* key;  // of the token's update
  float decay = 1, scale = 0;
  const float *gate = nullptr, *a = nullptr, *b = nullptr;
  Erase erase = Erase::none;
};

inline bool add_form(Identity, ScanForm&) { return true; }
inline bool add_form(Scaled scaled, ScanForm& form) {
  form.decay *= scaled.a;
  if (form.erase == Erase::pair) form.scale *= scaled.a;  // a pair reads the state before its decay
  return true;
}
inline bool add_form(Diagonal diagonal, ScanForm& form) {
  form.gate = diagonal.a.data();
  return true;
}
template <class D>
bool add_form(const PlusRankOne<D>& op, ScanForm& form) {
  const bool own = std::is_same_v<D, Identity> && op.plus.u.data() == form.key && op.plus.v.data() == form.key;
  if (!op.plus.scale.empty()) return false;
  form.erase = own ? Erase::own_key : Erase::pair;
  form.scale = own ? -op.plus.b : op.plus.b;
  form.a = op.plus.v.data(), form.b = op.plus.u.data();
  return add_form(op.d, form);
}
template <class Op>
bool add_form(const Product<Scaled, Op>& product, ScanForm& form) {
  return add_form(product.first, form) && add_form(product.second, form);
}
template <class Op>
bool add_form(const Product<Op, Scaled>& product, ScanForm& form) {
  return add_form(product.second, form) && add_form(product.first, form);
}
inline bool add_form(const Product<Scaled, Scaled>& product, ScanForm& form) {
  return add_form(product.second, form) && add_form(product.first, form);
}
inline bool add_form(const Product<PlusRankOne<Identity>, Diagonal>& product, ScanForm& form) {
  return add_form(product.second, form) && form.erase == Erase::own_key && add_form(product.first, form);
}

}  // namespace detail

}  // namespace fourfold
