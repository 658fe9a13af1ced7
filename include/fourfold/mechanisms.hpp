// The mechanisms of published models as scan rules: one transition and one update each.
//
// Names: S state [key dim, value dim], k key, v value, q query; per token alpha decay, beta strength, g decays of the
// key channels. Published forms that keep S transposed are given in this orientation.
#pragma once

#include <fourfold/affine.hpp>

namespace fourfold {

// S <- S + k v^T                                                     Katharopoulos et al. 2020, eq. 18-20 (no
// normaliser)
struct LinearAttention {
  constexpr auto transition(const Token&) const { return Identity{}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

// S <- decay_h S + k v^T                                             RetNet: Sun et al. 2023, eq. 6; Lightning
// Attention:
struct Retention {               //                                                Qin et al. 2024
  std::span<const float> decay;  // [heads]
  constexpr auto transition(const Token& t) const { return Scaled{decay[t.head]}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

// S <- Diag(g) S + k v^T                                             Gated linear attention: Yang et al. 2024, section
// 4
struct Gla {
  constexpr auto transition(const Token& t) const { return Diagonal{t.gate}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

// h(n, c) <- e^(dt_c A(c, n)) h(n, c) + dt_c B_n x_c                 Gu and Dao 2023, eq. 2a and algorithm 2
// Keys are B, queries C, values x; one head whose value dim is the number of channels.
struct Mamba1 {
  Rows<const float> a;  // [channels, key dim], negative
  constexpr auto transition(const Token& t) const { return Discretised{t.dt, a, t.channel}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}.times(t.dt); }
};

// S <- e^(dt A_h) S + dt B x^T                                       Dao and Gu 2024, eq. 1 with scalar A
// Keys are B, queries C, values x, beta is dt.
struct Mamba2 {
  std::span<const float> a;  // [heads], negative
  constexpr auto transition(const Token& t) const { return Scaled{fourfold::exp(t.beta * a[t.head])}; }
  constexpr auto update(const Token& t) const { return RankOne{t.beta, t.k, t.v}; }
};

// S <- (I - beta k k^T) S + beta k v^T                               DeltaNet: Schlag et al. 2021; Yang et al. 2024
struct DeltaNet {
  constexpr auto transition(const Token& t) const { return Identity{} - RankOne{t.beta, t.k, t.k}; }
  constexpr auto update(const Token& t) const { return RankOne{t.beta, t.k, t.v}; }
};

// S <- alpha (I - beta k k^T) S + beta k v^T                         Yang, Kautz and Hatamizadeh 2024, eq. 10
struct GatedDeltaNet {
  constexpr auto transition(const Token& t) const { return Scaled{t.alpha} * (Identity{} - RankOne{t.beta, t.k, t.k}); }
  constexpr auto update(const Token& t) const { return RankOne{t.beta, t.k, t.v}; }
};

// S <- (I - beta k k^T) Diag(g) S + beta k v^T                       Kimi Linear 2025, eq. 1
struct KimiDelta {
  constexpr auto transition(const Token& t) const {
    return (Identity{} - RankOne{t.beta, t.k, t.k}) * Diagonal{t.gate};
  }
  constexpr auto update(const Token& t) const { return RankOne{t.beta, t.k, t.v}; }
};

// S <- Diag(g) S + k v^T, out = (S_{t-1} + Diag(u) k v^T)^T q        RWKV-6: Peng et al. 2024, section 4.2
struct Rwkv6 {
  Rows<const float> u;  // [heads, key dim]: weight of the token's own key
  constexpr auto transition(const Token& t) const { return Diagonal{t.gate}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
  template <class T>
  constexpr T bonus(const Token& t) const {
    T sum = 0;
    for (std::size_t i = 0; i < t.k.size(); ++i)
      sum += static_cast<T>(t.q[i]) * static_cast<T>(u(t.head, static_cast<std::int64_t>(i))) * static_cast<T>(t.k[i]);
    return sum;
  }
};

// S <- (Diag(g) + b a^T) S + k v^T                                   RWKV-7: Peng et al. 2025, section 4
// There a is the removal key, negated, and b that key times the in-context learning rate.
struct Rwkv7 {
  constexpr auto transition(const Token& t) const { return Diagonal{t.gate} + RankOne{1, t.b, t.a}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

}  // namespace fourfold
