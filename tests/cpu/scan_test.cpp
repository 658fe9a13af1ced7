// The scan kernels of every ISA level against a recurrence in double: every form, sizes that are no multiple of a
// vector or a panel, buffers that end on guard pages.
#include <fourfold/scan_kernel.hpp>

#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

struct Form {
  bool gated, before;
  Erase erase;
};

struct Case {
  int tokens, keys, values;
  Form form;
  Guarded<float> q, k, v, gate, a, b, out, state, scratch;
  std::vector<ScanToken> list;

  Case(int tokens, int keys, int values, Form form)
      : tokens(tokens),
        keys(keys),
        values(values),
        form(form),
        q(size(keys)),
        k(size(keys)),
        v(size(values)),
        gate(size(keys)),
        a(size(keys)),
        b(size(keys)),
        out(size(values)),
        state(static_cast<std::size_t>(keys) * static_cast<std::size_t>(values)),
        scratch(scan_scratch_floats(keys, values)) {
    Random random(static_cast<unsigned>(tokens * 131 + keys * 17 + values));
    const float scale = 1 / std::sqrt(static_cast<float>(keys));
    std::uniform_real_distribution<float> share(0.3f, 1);
    for (auto* all : {&q, &v, &state})
      for (float& x : *all) x = normal(random);
    for (auto* all : {&k, &a, &b})
      for (float& x : *all) x = scale * normal(random);
    for (float& x : gate) x = share(random);
    for (int t = 0; t < tokens; ++t) {
      const auto row = [&](Guarded<float>& all, int width) { return all.data() + std::ptrdiff_t{t} * width; };
      list.push_back({.q = row(q, keys),
                      .k = row(k, keys),
                      .v = row(v, values),
                      .gate = form.gated ? row(gate, keys) : nullptr,
                      .a = row(a, keys),
                      .b = row(b, keys),
                      .out = row(out, values),
                      .decay = share(random),
                      .write = share(random),
                      .erase = form.erase == Erase::none ? 0 : share(random),
                      .bonus = share(random)});
    }
  }
  std::size_t size(int width) const { return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(width); }
  ScanRun run(int first, int count) {
    return {list.data() + first, count,       keys,       values,        state.data(), values,
            form.gated,          form.before, form.erase, scratch.data()};
  }
};

struct Result {
  std::vector<double> out, state;
};
Result recurrence(const Case& c) {
  Result r{std::vector<double>(c.size(c.values)), {c.state.data(), c.state.data() + c.state.size()}};
  for (int t = 0; t < c.tokens; ++t) {
    const ScanToken& x = c.list[static_cast<std::size_t>(t)];
    for (int j = 0; j < c.values; ++j) {
      const auto s = [&](int i) -> double& { return r.state[static_cast<std::size_t>(i * c.values + j)]; };
      double along_a = 0, along_k = 0, before = 0, after = 0;
      for (int i = 0; i < c.keys; ++i) along_a += double(x.a[i]) * s(i), before += double(x.q[i]) * s(i);
      for (int i = 0; i < c.keys; ++i) {
        s(i) *= double(x.decay) * (c.form.gated ? double(x.gate[i]) : 1);
        along_k += double(x.k[i]) * s(i);
      }
      for (int i = 0; i < c.keys; ++i) {
        if (c.form.erase == Erase::pair) s(i) += double(x.erase) * double(x.b[i]) * along_a;
        if (c.form.erase == Erase::own_key) s(i) -= double(x.erase) * double(x.k[i]) * along_k;
        s(i) += double(x.write) * double(x.k[i]) * double(x.v[j]);
        after += double(x.q[i]) * s(i);
      }
      r.out[static_cast<std::size_t>(t * c.values + j)] =
          c.form.before ? before + double(x.bonus) * double(x.v[j]) : after;
    }
  }
  return r;
}

double error_of(const Guarded<float>& got, const std::vector<double>& want) {
  double error = 0, size = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double(got[i]) - want[i], 2);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

TEST(ScanKernels, EveryFormAtEveryLevel) {
  for (const Kernels* level : levels())
    for (const Erase erase : {Erase::none, Erase::own_key, Erase::pair})
      for (const bool gated : {false, true})
        for (const bool before : {false, true})
          for (const auto& [tokens, keys, values] : {std::array{1, 1, 1},
                                                     {5, 16, 64},
                                                     {16, 16, 16},
                                                     {33, 20, 70},
                                                     {48, 128, 128},
                                                     {17, 7, 3},
                                                     {35, 130, 15}})
            for (const auto kernel : {level->scan_steps, level->scan_chunks}) {
              Case c(tokens, keys, values, {gated, before, erase});
              const Result want = recurrence(c);
              kernel(c.run(0, tokens));
              const std::string what = std::string(level->name) + " erase " + std::to_string(int(erase)) + " gated " +
                                       std::to_string(gated) + " before " + std::to_string(before) + " sizes " +
                                       std::to_string(tokens) + ' ' + std::to_string(keys) + ' ' +
                                       std::to_string(values);
              EXPECT_LE(error_of(c.out, want.out), 3e-6) << what;
              EXPECT_LE(error_of(c.state, want.state), 3e-6) << what;
            }
}

// Steps: the bits of a token depend on those before it, not on how runs are cut. Chunks: neither where whole chunks
// end.
TEST(ScanKernels, CutsKeepBits) {
  for (const Kernels* level : levels())
    for (const bool gated : {false, true}) {
      const Form form{gated, false, Erase::own_key};
      Case whole(37, 40, 70, form), single(37, 40, 70, form), chunked(37, 40, 70, form), parts(37, 40, 70, form);
      level->scan_steps(whole.run(0, 37));
      for (int t = 0; t < 37; ++t) level->scan_steps(single.run(t, 1));
      EXPECT_TRUE(std::equal(whole.out.begin(), whole.out.end(), single.out.begin())) << level->name;
      EXPECT_TRUE(std::equal(whole.state.begin(), whole.state.end(), single.state.begin())) << level->name;
      level->scan_chunks(chunked.run(0, 37));
      level->scan_chunks(parts.run(0, 16));
      level->scan_chunks(parts.run(16, 21));
      EXPECT_TRUE(std::equal(chunked.out.begin(), chunked.out.end(), parts.out.begin())) << level->name;
      EXPECT_TRUE(std::equal(chunked.state.begin(), chunked.state.end(), parts.state.begin())) << level->name;
    }
}

// Mamba-1's channels, whole vectors of them or not: the definition in double, and the same bits however runs are cut.
TEST(ScanKernels, ChannelsAtEveryLevel) {
  for (const Kernels* level : levels())
    for (const auto& [tokens, keys, channels] :
         {std::array{1, 1, 1}, {5, 16, 16}, {40, 16, 64}, {33, 20, 37}, {3, 7, 15}}) {
      const auto size = [&](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
      Random random(static_cast<unsigned>(tokens + keys + channels));
      std::uniform_real_distribution<float> share(0.01f, 2);
      Guarded<float> q(size(tokens, keys)), k(size(tokens, keys)), v(size(tokens, channels)), d(size(tokens, channels)),
          out(size(tokens, channels)), single(size(tokens, channels)), state(size(keys, channels)),
          stepped(size(keys, channels)), rate(size(keys, channels));
      for (auto* all : {&q, &k, &v, &state})
        for (float& x : *all) x = normal(random);
      for (float& x : d) x = share(random);
      for (float& x : rate) x = -share(random);
      std::copy(state.begin(), state.end(), stepped.begin());
      std::vector<double> want_state(state.begin(), state.end()), want(out.size());
      std::vector<ChannelToken> list, ones;
      for (int t = 0; t < tokens; ++t) {
        const auto row = [t](Guarded<float>& all, int width) { return all.data() + std::ptrdiff_t{t} * width; };
        list.push_back({row(q, keys), row(k, keys), row(v, channels), row(d, channels), row(out, channels)});
        ones.push_back(list.back());
        ones.back().out = row(single, channels);
        for (int c = 0; c < channels; ++c)
          for (int i = 0; i < keys; ++i) {
            double& s = want_state[size(i, channels) + static_cast<std::size_t>(c)];
            const double step = list.back().d[c];
            s = std::exp(step * double(rate[size(i, channels) + static_cast<std::size_t>(c)])) * s +
                step * double(list.back().v[c]) * double(list.back().k[i]);
            want[size(t, channels) + static_cast<std::size_t>(c)] += double(list.back().q[i]) * s;
          }
      }
      level->scan_channels({list.data(), tokens, keys, channels, state.data(), channels, rate.data(), channels});
      for (const ChannelToken& one : ones)
        level->scan_channels({&one, 1, keys, channels, stepped.data(), channels, rate.data(), channels});
      EXPECT_LE(error_of(out, want), 2e-6) << level->name << ' ' << channels;
      EXPECT_LE(error_of(state, want_state), 2e-6) << level->name << ' ' << channels;
      EXPECT_TRUE(std::equal(out.begin(), out.end(), single.begin())) << level->name;
      EXPECT_TRUE(std::equal(state.begin(), state.end(), stepped.begin())) << level->name;
    }
}

TEST(ScanKernels, NoTokensChangeNothing) {
  for (const Kernels* level : levels())
    for (const auto kernel : {level->scan_steps, level->scan_chunks}) {
      Case c(1, 20, 20, {true, false, Erase::own_key});
      const std::vector<float> before(c.state.begin(), c.state.end());
      kernel(c.run(0, 0));
      EXPECT_TRUE(std::equal(before.begin(), before.end(), c.state.begin()));
    }
}

}  // namespace
}  // namespace fourfold::simd::test
