// Loads the model named on the command line, writes what follows some text, and meets an error on purpose.
#include <fourfold/session.hpp>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto missing = fourfold::load("no-such-file.gguf");
  if (missing || missing.error().code() != fourfold::Code::not_found) return 3;

  auto model = fourfold::load(argv[1]);
  if (!model) {
    std::cerr << model.error().message() << "\n";
    return 1;
  }
  auto session = model->session({.context = 64});
  if (!session) {
    std::cerr << session.error().message() << "\n";
    return 1;
  }
  auto answer = session->generate("The capital of France is", {.max_tokens = 8, .sampling = {.temperature = 0}});
  for (std::string_view piece : answer) std::cout << piece;
  std::cout << "\n";
  return answer.error().ok() && !answer.ids().empty() ? 0 : 4;
}
