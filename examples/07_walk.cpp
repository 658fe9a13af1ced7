// Step 7: a walk and a score of your own inside a whole model. They are put into its Program, and every executor that
// runs Programs runs them.
//
//   example_07_walk MODEL      a .gguf or a folder
#include <algorithm>
#include <fourfold/session.hpp>

#include "example.hpp"

using namespace fourfold;

struct EveryThird {  // a Walk: a query sees its last 8 positions, and every third one before
  constexpr bool visible(int query, int key) const { return key <= query && (query - key < 8 || key % 3 == 0); }
  constexpr auto tiles(Range queries) const { return ranges({0, queries.end}); }
};

struct Fading {  // a Score: distance costs, more so in later heads
  int head = 0;
  constexpr Fading at_head(int h) const { return {h}; }
  constexpr float operator()(float s, int query, int key) const {
    return s - 0.01f * static_cast<float>((head + 1) * (query - key));
  }
};

template <class T>
T must(result<T> r) {
  if (!r.ok()) std::printf("%s\n", r.error().message().c_str()), std::exit(1);
  return std::move(r).value();
}

std::vector<float> logits(const Model& model, const SessionOptions& options, std::size_t chunk) {
  std::vector<int> ids(100);
  for (int i = 0; i < 100; ++i) ids[static_cast<std::size_t>(i)] = (7 * i + 3) % model.vocab();
  Session session = must(model.session(options));
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const status done = session.eval(std::span(ids).subspan(first, std::min(chunk, ids.size() - first)));
    if (!done) std::printf("%s\n", done.message().c_str()), std::exit(1);
  }
  return {session.logits().begin(), session.logits().end()};
}

int main(int argc, char** argv) {
  if (argc < 2) return std::printf("usage: example_07_walk MODEL\n"), 2;
  const Model plain = must(load(argv[1]));
  const Model mine = plain.with([](Program& program) {
    for (Step& step : program.steps)
      if (auto* attend = std::get_if<Attend>(&step.op)) {
        attend->walk = EveryThird{};
        attend->score = Fading{};
      }
  });
  const auto exact = logits(mine, {.executor = "reference"}, 100);
  check("threads against double", logits(mine, {.threads = 2, .f32 = true}, 100), exact, 1e-4);
  check("token by token against all at once", logits(mine, {.threads = 2}, 1), logits(mine, {.threads = 2}, 100), 0);
  const auto before = logits(plain, {.executor = "reference"}, 100);
  if (before == exact) return std::printf("the walk and the score changed nothing: WRONG\n"), 1;
}
