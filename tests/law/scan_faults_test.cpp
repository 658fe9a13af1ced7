// Faults that users of similar software met, as tests of every form: strong gates, collinear keys, packed sequences,
// long runs, speculative decoding.
#include <gtest/gtest.h>

#include <fourfold/scan_segments.hpp>
#include <fourfold/scan_states.hpp>

#include "scan_case.hpp"

namespace fourfold {
namespace {

using test::Random;
using test::relative_rms;
using test::ScanCase;

template <class R>
void expect_near_the_definition(const R& rule, const ScanCase& start, double bound) {
  ScanCase exact = start, stepped = start, chunked = start, segmented = start;
  ASSERT_TRUE(exact.run(rule, reference).ok());
  ASSERT_TRUE(stepped.run(rule, reference_f32).ok());
  ASSERT_TRUE(chunked.run(rule, Team{2}).ok());
  EXPECT_LE(relative_rms(stepped.out, exact.out), bound);
  EXPECT_LE(relative_rms(chunked.out, exact.out), bound);
  EXPECT_LE(relative_rms(chunked.state, exact.state), bound);
  ASSERT_TRUE(
      run_segmented(Scan{rule}, Team{2}, 3, segmented.input(), segmented.out_view(), segmented.state_view()).ok());
  EXPECT_LE(relative_rms(segmented.out, exact.out), bound);
}

// Fault S1: gates of -3e7 beside gates of 0. No product of decays is ever divided by another.
TEST(ScanFaults, StrongGatesBesideNone) {
  Random random(90);
  ScanCase c(random, 256, 2, 32, 16);
  c.scale_keys_to_one();
  const float gates[] = {0, -1e-3f, -1, -1e3f, -3e7f};
  const auto draw = [&] { return std::exp(gates[random.chance(0.7) ? random.integer(0, 1) : random.integer(0, 4)]); };
  for (float& a : c.alpha) a = draw();
  for (float& g : c.gate) g = draw();
  expect_near_the_definition(ScalarDecay{}, c, 1e-5);
  expect_near_the_definition(Gla{}, c, 1e-5);
  expect_near_the_definition(GatedDeltaNet{}, c, 1e-5);
  expect_near_the_definition(KimiDelta{}, c, 1e-5);
  expect_near_the_definition(Rwkv7{}, c, 1e-5);
  const std::vector<float> u(2 * 32, 0.5f), rates(2, -3e7f);
  std::vector<float> steps(2 * 16 * 32);
  expect_near_the_definition(Rwkv6{Rows<const float>{u.data(), 2, 32}}, c, 1e-5);
  for (float& d : c.dt) d = random.chance(0.7) ? random.uniform(0, 1e-9f) : random.uniform(0, 1);  // dt A to -3e7
  for (float& d : c.beta) d = random.chance(0.7) ? random.uniform(0, 1e-9f) : random.uniform(0, 1);
  for (float& a : steps) a = -random.uniform(0, 3e7f);
  expect_near_the_definition(Mamba2{rates}, c, 1e-5);
  expect_near_the_definition(Mamba1{Rows<const float>{steps.data(), 2 * 16, 32}}, c, 1e-5);
}

// Fault S3: identical unit keys and beta 1. The inverse within a chunk is bidiagonal with entries of +-1, so each token
// replaces what the last one stored; a power series of the strict triangle would reach 2^63.
TEST(ScanFaults, IdenticalKeysReplaceEachOther) {
  Random random(91);
  ScanCase c(random, 64, 1, 64, 8);
  std::fill(c.k.begin(), c.k.end(), 1 / 8.f);
  std::fill(c.beta.begin(), c.beta.end(), 1.f);
  std::fill(c.alpha.begin(), c.alpha.end(), 1.f);
  c.q = c.k;  // reads what the key answers: the token's own value
  for (int executor = 0; executor < 2; ++executor) {
    auto got = c;
    ASSERT_TRUE((executor ? got.run(DeltaNet{}, Team{1}) : got.run(GatedDeltaNet{}, Team{2})).ok());
    for (std::size_t i = 0; i < c.v.size(); ++i) ASSERT_NEAR(got.out[i], c.v[i], 1e-5 * (1 + std::abs(c.v[i])));
  }
}

// The report that came with it: 16384 identical keys, beta 1, gate near 0.
TEST(ScanFaults, SixteenThousandIdenticalKeys) {
  Random random(92);
  ScanCase c(random, 16384, 1, 32, 16);
  const std::vector<float> key(c.k.begin(), c.k.begin() + 32);
  for (std::size_t i = 0; i < c.k.size(); ++i) c.k[i] = key[i % 32];
  c.scale_keys_to_one();
  std::fill(c.beta.begin(), c.beta.end(), 1.f);
  std::fill(c.alpha.begin(), c.alpha.end(), std::exp(-1e-6f));
  std::fill(c.gate.begin(), c.gate.end(), std::exp(-1e-6f));
  for (int rule = 0; rule < 2; ++rule) {
    auto got = c, want = c;
    ASSERT_TRUE((rule ? got.run(KimiDelta{}, Team{2}) : got.run(GatedDeltaNet{}, Team{2})).ok());
    ASSERT_TRUE((rule ? want.run(KimiDelta{}, reference) : want.run(GatedDeltaNet{}, reference)).ok());
    EXPECT_LE(relative_rms(got.out, want.out), 1e-3);
    EXPECT_LE(relative_rms(got.state, want.state), 1e-3);
  }
}

// Gates at the bound of Kimi Linear's kernels (-5 a token) and next to 0, 65536 tokens.
TEST(ScanFaults, GatesAtTheBoundForALongTime) {
  Random random(93);
  for (float gate : {-5.f, -1e-7f}) {
    ScanCase c(random, 65536, 1, 16, 16);
    c.scale_keys_to_one();
    std::fill(c.gate.begin(), c.gate.end(), std::exp(gate));
    auto want = c;
    ASSERT_TRUE(c.run(KimiDelta{}, Team{2}).ok());
    ASSERT_TRUE(want.run(KimiDelta{}, reference).ok());
    EXPECT_LE(relative_rms(c.out, want.out), 1e-4);
  }
}

// Fault S5: packed sequences, some empty, some of one token, equal separate runs bit for bit, states too.
template <class R>
void expect_no_leak(const R& rule) {
  Random random(94);
  const std::vector<int> offsets{0, 5, 6, 6, 70, 77, 78, 78};
  const int sequences = static_cast<int>(offsets.size()) - 1, numbers = 2 * 16 * 24;
  ScanCase all(random, 78, 2, 16, 24);
  all.state = random.normals(std::size_t(sequences) * numbers);
  const ScanCase start = all;
  ASSERT_TRUE(Scan{rule}.on(Team{2}).run(all.input(), all.out_view(), all.state_view(sequences), offsets).ok());
  for (int s = 0; s < sequences; ++s) {
    ScanCase one = start.part(offsets[s], offsets[s + 1]);
    one.state.assign(start.state.begin() + s * numbers, start.state.begin() + (s + 1) * numbers);
    ASSERT_TRUE(one.run(rule, Team{1}).ok());
    for (std::size_t i = 0; i < one.out.size(); ++i) ASSERT_EQ(one.out[i], all.out[offsets[s] * 2 * 24 + i]);
    for (int i = 0; i < numbers; ++i) ASSERT_EQ(one.state[i], all.state[s * numbers + i]);
  }
}
TEST(ScanFaults, PackedSequencesDoNotLeak) {
  const std::vector<float> factors(2, 0.9f), rates(2, -0.5f), u(2 * 16, 0.5f), channels(2 * 24 * 16, -0.5f);
  expect_no_leak(LinearAttention{});
  expect_no_leak(Retention{factors});
  expect_no_leak(Mamba1{Rows<const float>{channels.data(), 2 * 24, 16}});
  expect_no_leak(Mamba2{rates});
  expect_no_leak(DeltaNet{});
  expect_no_leak(Rwkv6{Rows<const float>{u.data(), 2, 16}});
  expect_no_leak(Gla{});
  expect_no_leak(GatedDeltaNet{});
  expect_no_leak(KimiDelta{});
  expect_no_leak(Rwkv7{});
}

// Fewer than a chunk's tokens run one after the other: their bits are those of decoding.
TEST(ScanFaults, ShortRunsHaveTheBitsOfDecoding) {
  Random random(95);
  for (int tokens : {2, 7, kScanChunk - 1}) {
    ScanCase whole(random, tokens, 3, 20, 37), steps = whole;
    std::vector<float> out;
    for (int t = 0; t < tokens; ++t) {
      ScanCase one = steps.part(t, t + 1);
      ASSERT_TRUE(one.run(KimiDelta{}, Team{1 + t % 3}).ok());
      steps.state = one.state;
      out.insert(out.end(), one.out.begin(), one.out.end());
    }
    ASSERT_TRUE(whole.run(KimiDelta{}, Team{2}).ok());
    EXPECT_EQ(out, whole.out);
    EXPECT_EQ(steps.state, whole.state);
  }
}

// ---- fork, verify, keep the accepted prefix ------------------------------------------------------------------------

constexpr int kHeads = 2, kKeys = 12, kValues = 20, kNumbers = kKeys * kValues;

// Runs the tokens [first, end) of the stream on a slot.
std::vector<float> advance(const ScanCase& stream, int first, int end, ScanStates& states, int slot) {
  ScanCase part = stream.part(first, end);
  const std::vector<int> offsets{0, end - first}, slots{slot};
  EXPECT_TRUE(Scan{GatedDeltaNet{}}
                  .on(Team{2})
                  .run(part.input(), part.out_view(), states.rows(), ScanSequences{offsets, slots})
                  .ok());
  return part.out;
}

TEST(ScanStates, DraftsAreVerifiedAndTheAcceptedPrefixKept) {
  Random random(96);
  const ScanCase stream(random, 300, kHeads, kKeys, kValues);
  auto states = ScanStates::create(3, kHeads, kNumbers).value();
  const int speculative = states.take().value(), plain = states.take().value();
  for (int at = 0; at + 15 < 300;) {
    const int draft = random.integer(1, 15), accepted = random.integer(0, draft);
    const int fork = states.fork(speculative).value();
    advance(stream, at, at + draft, states, fork);
    if (accepted == draft) {
      ASSERT_TRUE(states.keep(fork, speculative).ok());
    } else {
      ASSERT_TRUE(states.drop(fork).ok());
      advance(stream, at, at + accepted, states, speculative);
    }
    for (int t = at; t < at + accepted; ++t) advance(stream, t, t + 1, states, plain);
    at += accepted;
    ASSERT_TRUE(std::ranges::equal(states.slot(speculative), states.slot(plain))) << at;  // bit for bit
  }
}

// Random take, fork, run, keep, drop and restore against a plain list of states.
TEST(ScanStates, SlotsNeverSeeEachOthersWrites) {
  Random random(97);
  const ScanCase stream(random, 40, kHeads, kKeys, kValues);
  auto states = ScanStates::create(6, kHeads, kNumbers).value();
  std::vector<std::vector<float>> model(6);  // empty: not taken
  std::vector<char> saved;
  std::vector<float> saved_model;
  for (int step = 0; step < 600; ++step) {
    const int slot = random.integer(0, 5), other = random.integer(0, 5), first = random.integer(0, 38);
    const bool taken = !model[slot].empty(), both = taken && !model[other].empty() && other != slot;
    switch (random.integer(0, 6)) {
      case 0:
        if (auto got = states.take()) model[*got].assign(kHeads * kNumbers, 0.f);
        break;
      case 1:
        if (auto got = states.fork(slot)) model[*got] = model[slot];
        break;
      case 2:
        EXPECT_EQ(states.drop(slot).ok(), taken);
        model[slot].clear();
        break;
      case 3:
        if (both && states.keep(other, slot).ok()) model[slot] = std::move(model[other]), model[other].clear();
        break;
      case 4:
        if (taken) saved = states.save(slot).value(), saved_model = model[slot];
        break;
      case 5:
        if (taken && !saved.empty() && states.restore(slot, saved).ok()) model[slot] = saved_model;
        break;
      default:
        if (!taken) break;
        advance(stream, first, first + 2, states, slot);
        ScanCase part = stream.part(first, first + 2);
        part.state = model[slot];
        ASSERT_TRUE(part.run(GatedDeltaNet{}, Team{1}).ok());
        model[slot] = part.state;
    }
    for (int s = 0; s < 6; ++s)
      if (!model[s].empty()) {
        ASSERT_TRUE(std::ranges::equal(states.slot(s), model[s])) << step;
      }
  }
}

TEST(ScanStates, RefusesForeignAndTruncatedBytes) {
  auto states = ScanStates::create(2, kHeads, kNumbers).value();
  const int slot = states.take().value();
  const auto bytes = states.save(slot).value();
  EXPECT_TRUE(states.restore(slot, bytes).ok());
  for (std::size_t size : {std::size_t(0), std::size_t(7), bytes.size() - 1})
    EXPECT_EQ(states.restore(slot, std::span(bytes).first(size)).code(), Code::malformed) << size;
  auto foreign = bytes;
  foreign[0] ^= 1;
  EXPECT_NE(states.restore(slot, foreign).message().find("the bytes are none"), std::string::npos);
  auto later = bytes;
  later[7] = '2';
  EXPECT_EQ(states.restore(slot, later).code(), Code::unsupported);
  EXPECT_NE(states.restore(slot, later).message().find("version 02 of its format; this build reads 01"),
            std::string::npos);
  auto other = ScanStates::create(2, kHeads, kNumbers + 1).value();
  EXPECT_NE(other.restore(other.take().value(), bytes).message().find("must be 2 of 241"), std::string::npos);
  EXPECT_EQ(states.restore(1, bytes).code(), Code::invalid_argument);  // not taken
  EXPECT_EQ(ScanStates::create(1 << 30, 1 << 30, 1).error().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace fourfold
