// Step 6: a whole model. Its file becomes a Program, a list of the moves above; a Session runs it and keeps the caches.
//
//   example_06_session MODEL [PROMPT]      a .gguf or a folder; a prompt needs a model with a vocabulary
#include <fourfold/session.hpp>
#include <string_view>

#include "example.hpp"

using namespace fourfold;

template <class T>
T must(result<T> r) {
  if (!r.ok()) std::printf("%s\n", r.error().message().c_str()), std::exit(1);
  return std::move(r).value();
}

// The logits behind `ids`, evaluated `chunk` ids at a time.
std::vector<float> logits(const Model& model, const SessionOptions& options, const std::vector<int>& ids,
                          std::size_t chunk) {
  Session session = must(model.session(options));
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const status done = session.eval(std::span(ids).subspan(first, std::min(chunk, ids.size() - first)));
    if (!done) std::printf("%s\n", done.message().c_str()), std::exit(1);
  }
  return {session.logits().begin(), session.logits().end()};
}

int main(int argc, char** argv) {
  if (argc < 2) return std::printf("usage: example_06_session MODEL [PROMPT]\n"), 2;
  const Model model = must(load(argv[1]));
  std::printf("%s: %zu steps, context %d\n", model.program().family.c_str(), model.program().steps.size(),
              model.context());

  if (argc > 2) {  // text in, text out, as it comes
    Session session = must(model.session());
    for (std::string_view piece : session.generate(std::string_view(argv[2]), {.max_tokens = 32}))
      std::printf("%.*s", static_cast<int>(piece.size()), piece.data()), std::fflush(stdout);
    std::printf("\n");
  }

  const std::vector<int> ids{1, 5, 2, 7, 3, 11, 4, 13};
  const auto prefill = logits(model, {.threads = 2}, ids, ids.size());
  check("token by token against all at once", logits(model, {.threads = 2}, ids, 1), prefill, 0);
  check("1 thread against 2", logits(model, {.threads = 1}, ids, ids.size()), prefill, 0);
  const auto exact = logits(model, {.executor = "reference"}, ids, ids.size());
  double largest = 0;
  for (const float x : exact) largest = std::fmax(largest, std::fabs(x));
  // Each step rounds to float a few times: by half a unit in the last place, of numbers as large as the logits.
  const double rounding = static_cast<double>(model.program().steps.size()) * std::ldexp(largest, -24);
  check("float activations against double", logits(model, {.f32 = true}, ids, ids.size()), exact, 4 * rounding);
}
