// The operands of a scan, and what they must look like.
#pragma once

#include <cstdint>
#include <fourfold/fold_checks.hpp>
#include <fourfold/tensor.hpp>
#include <span>
#include <string>
#include <vector>

namespace fourfold {

// "heads" are those of the values; the keys and queries of one key head may serve several of them: value head h reads
// key head h / (value heads / key heads). Operands without data: see Token.
template <class Q, class K, class V>
struct ScanTokens {
  Heads<Q> q;                 // [tokens, key heads, key dim]
  Heads<K> k;                 // [tokens, key heads, key dim]
  Heads<V> v;                 // [tokens, heads, value dim]
  Rows<const float> alpha{};  // [tokens, heads] decays
  Rows<const float> beta{};   // [tokens, heads] strengths
  Rows<const float> gate{};   // [tokens, heads * key dim] decays of the key channels
  Rows<const float> a{};      // [tokens, heads * key dim]
  Rows<const float> b{};      // [tokens, heads * key dim]
  Rows<const float> dt{};     // [tokens, heads * value dim] step sizes of the value channels
};
template <class Q, class K, class V>
ScanTokens(Heads<Q>, Heads<K>, Heads<V>, Rows<const float> = {}, Rows<const float> = {}, Rows<const float> = {},
           Rows<const float> = {}, Rows<const float> = {}, Rows<const float> = {}) -> ScanTokens<Q, K, V>;

// Sequences packed one after the other, and where each keeps its states.
struct ScanSequences {
  std::span<const int> offsets;  // sequence s owns the tokens [offsets[s], offsets[s + 1]); may be empty
  std::span<const int> slots{};  // sequence s uses the states of slot slots[s]; empty: slot s

  constexpr int count() const { return static_cast<int>(offsets.size()) - 1; }
  constexpr int slot(int sequence) const { return slots.empty() ? sequence : slots[sequence]; }
};

namespace detail {

inline status check_slots(std::span<const int> slots, int sequences, std::int64_t available) {
  if (static_cast<int>(slots.size()) != sequences)
    return mismatch("scan: slots", static_cast<std::int64_t>(slots.size()), "the sequences", sequences);
  std::vector<bool> used(static_cast<std::size_t>(available));
  for (int slot : slots) {
    if (slot < 0 || slot >= available)
      return {Code::invalid_argument,
              "scan: slot " + std::to_string(slot) + " is not in [0, " + std::to_string(available) + ")"};
    if (used[slot]) return {Code::invalid_argument, "scan: slot " + std::to_string(slot) + " is named twice"};
    used[slot] = true;
  }
  return {};
}

template <class Q, class K, class V>
status check_scan(const ScanTokens<Q, K, V>& t, const Heads<Rows<float>>& out, Rows<float> states,
                  const ScanSequences& sequences) {
  if (t.k.heads < 1 || t.q.heads < 1 || t.v.heads < 1 || out.heads < 1)
    return {Code::invalid_argument, "scan: every operand needs at least 1 head"};
  const int heads = t.v.heads, keys = t.k.dim(), tokens = t.k.tokens();
  if (t.q.heads != t.k.heads) return mismatch("scan: query heads", t.q.heads, "the key heads", t.k.heads);
  if (heads % t.k.heads != 0)
    return {Code::invalid_argument, "scan: " + std::to_string(heads) + " value heads are no multiple of " +
                                        std::to_string(t.k.heads) + " key heads"};
  if (out.heads != heads) return mismatch("scan: output heads", out.heads, "the value heads", heads);
  if (t.q.dim() != keys) return mismatch("scan: query dimension", t.q.dim(), "the key dimension", keys);
  if (out.dim() != t.v.dim()) return mismatch("scan: output dimension", out.dim(), "the value dimension", t.v.dim());
  for (int n : {t.q.tokens(), t.v.tokens(), out.tokens()})
    if (n != tokens) return mismatch("scan: queries, values or outputs", n, "the keys", tokens);
  const auto fits = [&](Rows<const float> rows, std::int64_t columns) {
    return !rows.data || (rows.rows == tokens && rows.columns == columns);
  };
  if (!fits(t.alpha, heads) || !fits(t.beta, heads))
    return {Code::invalid_argument, "scan: alpha and beta must be [tokens, heads]"};
  const std::int64_t channels = std::int64_t{heads} * keys;
  if (!fits(t.gate, channels) || !fits(t.a, channels) || !fits(t.b, channels))
    return {Code::invalid_argument, "scan: gate, a and b must be [tokens, heads * key dim]"};
  if (!fits(t.dt, std::int64_t{heads} * t.v.dim()))
    return {Code::invalid_argument, "scan: dt must be [tokens, heads * value dim]"};
  FOURFOLD_TRY(check_offsets("scan: offsets", sequences.offsets, tokens));
  if (!states.data) return {};
  if (states.columns != std::int64_t{keys} * t.v.dim() || states.rows % heads != 0 ||
      (sequences.slots.empty() && states.rows != std::int64_t{sequences.count()} * heads))
    return {Code::invalid_argument, "scan: states must be [sequences * heads, key dim * value dim]"};
  return sequences.slots.empty() ? status() : check_slots(sequences.slots, sequences.count(), states.rows / heads);
}

}  // namespace detail

}  // namespace fourfold
