// Step 3: an attention that no library ships. The last `window` keys and the first `sinks` keys are visible, and scores
// are soft-capped. Two small types are the whole of it; every executor runs them.
#include <fourfold/fold.hpp>

#include "example.hpp"

using namespace fourfold;

struct WindowWithSinks {  // a Walk
  int window, sinks;
  constexpr bool visible(int query, int key) const { return key <= query && (query - key < window || key < sinks); }
  constexpr auto tiles(Range queries) const { return ranges({0, sinks}, {queries.first - window + 1, queries.end}); }
};

struct Capped {  // a Score
  float cap;
  constexpr float operator()(float s, int /*query*/, int /*key*/) const { return cap * tanh(s / cap); }
};

int main() {
  const Fold attention{WindowWithSinks{1024, 4}, Capped{50.f}, OnlineSoftmax{}};

  const int kQueries = 8, kKeys = 3000, D = 64;  // the last 8 tokens of 3000
  const auto q = numbers(kQueries * D, 1), k = numbers(kKeys * D, 2), v = numbers(kKeys * D, 3);
  const auto run = [&](const auto& executor) {
    std::vector<float> out(q.size());
    const status s =
        attention.on(executor).attend(Heads{Rows{q.data(), kQueries, D}, 1}, Heads{Rows{k.data(), kKeys, D}, 1},
                                      Heads{Rows{v.data(), kKeys, D}, 1}, Heads{Rows{out.data(), kQueries, D}, 1});
    if (!s) std::printf("%s\n", s.message().c_str()), std::exit(1);
    return out;
  };
  const auto exact = run(reference);
  check("float loop against double", run(reference_f32), exact, 5e-5);
  check("tiles on 2 threads against double", run(Team{2}), exact, 5e-5);
  check("7 threads against 1, bit for bit", run(Team{7}), run(Team{1}), 0);
}
