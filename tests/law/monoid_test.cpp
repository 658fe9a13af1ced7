// The laws, once for every monoid: identity, associativity, commutativity where claimed, absorb == repeated combine.
//
// States are compared by what they mean (`finish`, and `lse`), since (m, l, o) has many spellings of one value. n
// inputs of size at most s carry a rounding error of at most about n eps s; the bound allows that, and no more.
#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/affine.hpp>
#include <fourfold/fold.hpp>
#include <fourfold/monoid.hpp>

#include "random.hpp"

namespace fourfold {
namespace {

using test::Random;

inline void flatten(double x, std::vector<double>& out) { out.push_back(x); }
template <class T>
void flatten(const Pick<T>& pick, std::vector<double>& out) {
  out.push_back(pick.value);
  out.push_back(pick.index);
}
template <class T, std::size_t K>
void flatten(const std::array<Pick<T>, K>& picks, std::vector<double>& out) {
  for (const auto& pick : picks) flatten(pick, out);
}

template <class M>
std::vector<double> meaning(const M& monoid, const typename M::State& state) {
  std::vector<double> all;
  flatten(monoid.finish(state), all);
  if constexpr (requires { monoid.lse(state); }) flatten(monoid.lse(state), all);
  return all;
}

template <class M>
class MonoidLaw : public ::testing::Test {
 protected:
  static constexpr int kInputs = 24;
  // What a rounding is relative to: the sum of the inputs' sizes, or the size of the largest exponent.
  static constexpr double kSize = std::is_same_v<M, Sum<real_of<M>>> ? 20.0 * kInputs : 60.0;

  // Few distinct values and a rare -infinity, so that ties and empty states come up.
  static typename M::State draw(Random& random, int index) {
    const M monoid{};
    using T = real_of<M>;
    T x = static_cast<T>(random.chance(0.5) ? random.integer(-3, 3) : random.normal(20));
    if (random.chance(0.05)) x = -kInfinity<T>;
    if constexpr (std::is_same_v<M, Affine<T>>) {
      return monoid.lift(static_cast<T>(random.uniform(0, 1)), static_cast<T>(random.normal()));
    } else if constexpr (requires { monoid.lift(x, At{index}); }) {
      return monoid.lift(x, At{index});
    } else if constexpr (requires { monoid.lift(x); }) {
      return monoid.lift(std::isinf(x) && std::is_same_v<M, Sum<T>> ? T(0) : x);
    } else {
      return monoid.lift(x, static_cast<T>(random.normal()));
    }
  }
  static void expect_same(const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]) || std::isinf(want[i])) {
        EXPECT_TRUE(got[i] == want[i] || std::isnan(want[i])) << got[i] << " against " << want[i];
        EXPECT_EQ(std::isnan(got[i]), std::isnan(want[i]));
      } else {
        const double bound = kSize * std::numeric_limits<real_of<M>>::epsilon();
        EXPECT_NEAR(got[i], want[i], bound);
      }
    }
  }
};

using Monoids =
    ::testing::Types<Sum<float>, Sum<double>, Max<float>, ArgMax<float>, TopK<1>, TopK<5>, LogSumExp<float>,
                     LogSumExp<double>, OnlineSoftmax<float>, OnlineSoftmax<double>, Affine<float>, Affine<double>>;
TYPED_TEST_SUITE(MonoidLaw, Monoids);

TYPED_TEST(MonoidLaw, IdentityChangesNoBit) {
  const TypeParam monoid{};
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    auto state = monoid.identity();
    for (int i = 0; i < round % 5; ++i) state = monoid.combine(state, this->draw(random, i));
    const auto want = meaning(monoid, state);
    for (const auto& joined : {monoid.combine(monoid.identity(), state), monoid.combine(state, monoid.identity())}) {
      const auto got = meaning(monoid, joined);
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << got[i] << " " << want[i];
    }
  }
}

TYPED_TEST(MonoidLaw, GroupingIsFree) {
  const TypeParam monoid{};
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<typename TypeParam::State> parts;
    auto folded = monoid.identity();
    for (int i = 0; i < this->kInputs; ++i) {
      parts.push_back(this->draw(random, i));
      folded = monoid.combine(folded, parts.back());
    }
    while (parts.size() > 1) {  // joins random neighbours until one is left
      const int i = random.integer(0, static_cast<int>(parts.size()) - 2);
      parts[i] = monoid.combine(parts[i], parts[i + 1]);
      parts.erase(parts.begin() + i + 1);
    }
    this->expect_same(meaning(monoid, parts[0]), meaning(monoid, folded));
  }
}

TYPED_TEST(MonoidLaw, OrderIsFreeExactlyWhereClaimed) {
  const TypeParam monoid{};
  Random random(4);
  bool order_matters = false;
  for (int round = 0; round < 200; ++round) {
    std::vector<typename TypeParam::State> parts;
    for (int i = 0; i < this->kInputs; ++i) parts.push_back(this->draw(random, i));
    const auto fold = [&] {
      auto state = monoid.identity();
      for (const auto& part : parts) state = monoid.combine(state, part);
      return meaning(monoid, state);
    };
    const auto want = fold();
    random.shuffle(parts);
    if (TypeParam::commutative) {
      this->expect_same(fold(), want);
    } else {
      order_matters = order_matters || std::abs(fold()[0] - want[0]) > 0.1;
    }
  }
  EXPECT_EQ(order_matters, !TypeParam::commutative);
}

// A row state and its columns, for the monoid's own hooks and for the column-wise ones every other monoid gets.
template <class R, class M>
void expect_absorb_is_combine(const R& rows, const M& monoid) {
  using T = real_of<M>;
  Random random(5);
  constexpr int kColumns = 5, kStride = 7;
  for (int round = 0; round < 100; ++round) {
    std::vector<typename R::Column> storage(2 * kColumns);
    auto first = rows.row(storage.data(), kColumns), second = rows.row(storage.data() + kColumns, kColumns);
    std::vector<typename M::State> want(kColumns, monoid.identity());
    for (int leaf = 0; leaf < 6; ++leaf) {
      std::vector<T> scores(kLeaf), values(kLeaf * kStride, kNaN<T>);
      std::uint64_t visible = 0;
      const double share = round % 3 == 0 ? 0.0 : round % 3 == 1 ? 0.3 : 1.0;
      for (int j = 0; j < kLeaf; ++j) {
        scores[j] = static_cast<T>(random.normal(4));
        if (!random.chance(share) && leaf != round % 6) continue;
        visible |= std::uint64_t{1} << j;
        for (int c = 0; c < kColumns; ++c) {
          values[j * kStride + c] = static_cast<T>(random.normal());
          want[c] = monoid.combine(want[c], monoid.lift(scores[j], values[j * kStride + c]));
        }
      }
      rows.absorb(leaf < 3 ? first : second, ScoreTile<T>{scores.data(), visible},
                  ValueTile<T>{values.data(), kStride});
    }
    rows.merge(first, second);
    for (int c = 0; c < kColumns; ++c) {
      const auto got = meaning(monoid, rows.column(first, c)), exact = meaning(monoid, want[c]);
      const double bound = 6 * kLeaf * std::numeric_limits<T>::epsilon() * (1 + std::abs(exact[0]));
      for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(got[i], exact[i], bound);
    }
  }
}

TEST(RowMonoidLaw, AbsorbIsRepeatedCombine) {
  static_assert(RowMonoid<OnlineSoftmax<float>> && RowMonoid<OnlineSoftmax<double>>);
  expect_absorb_is_combine(OnlineSoftmax<float>{}, OnlineSoftmax<float>{});
  expect_absorb_is_combine(OnlineSoftmax<double>{}, OnlineSoftmax<double>{});
  expect_absorb_is_combine(detail::ByColumn<Sum<float>>{}, Sum<float>{});
  expect_absorb_is_combine(detail::ByColumn<OnlineSoftmax<float>>{}, OnlineSoftmax<float>{});
}

TEST(RowMonoidLaw, MaskedLeavesAndEmptyRowsChangeNoBit) {
  const OnlineSoftmax<float> monoid;
  float storage[] = {0, 0}, other[] = {0, 0};
  auto row = monoid.row(storage, 2), empty = monoid.row(other, 2);
  std::vector<float> scores(kLeaf, 1.5f), values(2 * kLeaf, 0.3f);
  monoid.absorb(row, {scores.data(), 0x10}, {values.data(), 2});
  const auto before = row;
  const float o = storage[1];
  std::fill(values.begin(), values.end(), kNaN<float>);
  monoid.absorb(row, {scores.data(), 0}, {values.data(), 2});
  monoid.merge(row, empty);
  EXPECT_EQ(row.m, before.m);
  EXPECT_EQ(row.l, before.l);
  EXPECT_EQ(storage[1], o);
  monoid.merge(empty, row);
  EXPECT_EQ(other[1], o);
  EXPECT_EQ(empty.l, row.l);
}

static_assert(kLogScaled<OnlineSoftmax<float>> && kLogScaled<LogSumExp<double>> && !kLogScaled<Sum<float>>);
static_assert(Affine<float>::transition == Transition::scalar && !Affine<float>::commutative);

// Fault A3: empty states join as empty, and a finite state keeps its bits.
TEST(OnlineSoftmaxLaw, EmptyStatesJoinWithoutNaN) {
  const OnlineSoftmax<float> monoid;
  const auto none = monoid.combine(monoid.identity(), monoid.identity());
  EXPECT_EQ(none.m, -kInfinity<float>);
  EXPECT_EQ(none.l, 0.f);
  EXPECT_EQ(monoid.finish(none), 0.f);
  EXPECT_EQ(monoid.lse(none), -kInfinity<float>);
  const OnlineSoftmax<float>::State some{0.7f, 1.3f, -2.1f};
  for (const auto& joined : {monoid.combine(some, none), monoid.combine(none, some)}) {
    EXPECT_EQ(joined.m, some.m);
    EXPECT_EQ(joined.l, some.l);
    EXPECT_EQ(joined.o, some.o);
  }
  EXPECT_EQ(monoid.finish(monoid.lift(-kInfinity<float>, 5.f)), 0.f) << "weight e^-inf is no weight";
}

// Fault A3: parts folded elsewhere come back as (lse, output), empty ones among them, in any number and order.
TEST(OnlineSoftmaxLaw, FinishedPartsJoinInAnyOrder) {
  const OnlineSoftmax<double> monoid;
  Random random(6);
  for (int chunks : {0, 1, 5}) {
    auto whole = monoid.identity();
    std::vector<OnlineSoftmax<double>::State> parts{monoid.lift(-kInfinity<double>, 0.0)};
    for (int chunk = 0; chunk < chunks; ++chunk) {
      auto part = monoid.identity();
      for (int i = 0; i < 3 * chunk; ++i) {  // the first is empty
        const auto one = monoid.lift(double(random.normal(9)), double(random.normal()));
        part = monoid.combine(part, one);
        whole = monoid.combine(whole, one);
      }
      parts.push_back(monoid.lift(monoid.lse(part), monoid.finish(part)));
    }
    for (int round = 0; round < 20; ++round) {
      random.shuffle(parts);
      auto joined = monoid.identity();
      for (const auto& part : parts) joined = monoid.combine(joined, part);
      if (chunks < 2) {
        EXPECT_EQ(monoid.lse(joined), -kInfinity<double>);
        EXPECT_EQ(monoid.finish(joined), 0.0);
      } else {
        EXPECT_NEAR(monoid.lse(joined), monoid.lse(whole), 1e-14 * 40);
        EXPECT_NEAR(monoid.finish(joined), monoid.finish(whole), 1e-14);
      }
    }
  }
}

TEST(SelectionLaw, TiesGoToTheLowerIndexAndNaNComesLast) {
  const float nan = kNaN<float>, inf = kInfinity<float>;
  const std::vector<float> x{nan, 2, -inf, 5, 5, nan, 2};
  const Fold top{Full{}, TopK<8>{}};
  std::array<Pick<float>, 8> picks[1];
  ASSERT_TRUE(top.on(reference).reduce(Rows{x.data(), 1, 7}, picks).ok());
  std::vector<int> order;
  for (const auto& pick : picks[0]) order.push_back(pick.index);
  EXPECT_EQ(order, (std::vector{3, 4, 1, 6, 2, 0, 5, -1}));

  Pick<float> best[2];
  const std::vector<float> rows{nan, nan, 1, 1};
  ASSERT_TRUE((Fold{Full{}, ArgMax{}}.on(Team{2}).reduce(Rows{rows.data(), 2, 2}, best).ok()));
  EXPECT_EQ(best[0].index, 0);
  EXPECT_EQ(best[1].index, 0);
}

}  // namespace
}  // namespace fourfold
