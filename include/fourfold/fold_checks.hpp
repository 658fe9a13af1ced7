// What a fold's operands must look like; each error names the operand, its size and the size wanted.
#pragma once

#include <fourfold/tensor.hpp>
#include <string>

namespace fourfold {

// [tokens, heads] floats for ln(sum of e^score); no data: not asked for.
using LseRows = Rows<float>;

namespace detail {

inline status mismatch(const char* what, std::int64_t got, const char* wanted, std::int64_t value) {
  return {Code::invalid_argument,
          std::string(what) + " is " + std::to_string(got) + ", must be " + wanted + ", " + std::to_string(value)};
}

template <class Q, class K, class V, class O>
status check_attend(const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v, const Heads<O>& out, LseRows lse,
                    const Sequences& sequences) {
  if (q.heads < 1 || k.heads < 1 || v.heads < 1 || out.heads < 1)
    return {Code::invalid_argument, "attend: every operand needs at least 1 head"};
  if (q.heads % k.heads != 0)
    return {Code::invalid_argument, "attend: " + std::to_string(q.heads) + " query heads are no multiple of " +
                                        std::to_string(k.heads) + " key heads"};
  if (v.heads != k.heads) return mismatch("attend: value heads", v.heads, "the key heads", k.heads);
  if (out.heads != q.heads) return mismatch("attend: output heads", out.heads, "the query heads", q.heads);
  if (k.dim() != q.dim()) return mismatch("attend: key dimension", k.dim(), "the query dimension", q.dim());
  if (out.dim() != v.dim()) return mismatch("attend: output dimension", out.dim(), "the value dimension", v.dim());
  if (v.tokens() != k.tokens()) return mismatch("attend: values", v.tokens(), "the keys", k.tokens());
  if (out.tokens() != q.tokens()) return mismatch("attend: outputs", out.tokens(), "the queries", q.tokens());
  if (lse.data && (lse.rows != q.tokens() || lse.columns != q.heads))
    return {Code::invalid_argument, "attend: lse must be [queries, query heads]"};
  if (sequences.queries.size() != sequences.keys.size())
    return mismatch("attend: key offsets", sequences.keys.size(), "the query offsets", sequences.queries.size());
  FOURFOLD_TRY(check_offsets("attend: query offsets", sequences.queries, q.tokens()));
  return check_offsets("attend: key offsets", sequences.keys, k.tokens());
}

}  // namespace detail

}  // namespace fourfold
