// fourfold: run language models from a command line. One file per verb; exit.hpp has the exit codes.
#include <exception>
#include <new>

#include "exit.hpp"
#include "options.hpp"
#include "output.hpp"
#include "signals.hpp"
#include "verbs.hpp"

namespace {

using namespace fourfold::cli;

const std::vector<Verb> kVerbs = {
    {"run", "complete a prompt", declare_run},
    {"chat", "a conversation in the model's own template", declare_chat},
    {"bench", "prefill and decode rates beside this machine's ceilings", declare_bench},
    {"logits", "a model's raw output, as a .npy file", declare_logits},
    {"tokenize", "text to token ids", declare_tokenize},
    {"detokenize", "token ids to text", declare_detokenize},
    {"template", "a conversation as the chat template renders it", declare_template},
    {"info", "what is in a model file", declare_info},
    {"explain", "where a token's time goes, and which limit binds", declare_explain},
    {"probe", "the ceilings of this machine, measured", declare_probe},
    {"check", "an executor against the reference, step by step", declare_check},
    {"balance", "how evenly experts are chosen, step by step, under a balancing rule", declare_balance},
    {"doctor", "what this machine and this build can do", declare_doctor},
    {"new", "a new walk, score, gate or rule: its file, tests and benchmark", declare_new},
};

int run(int argc, char** argv) {
  try {
    const int code = run_verb(argc, argv, kVerbs);
    out().flush();
    return code;
  } catch (const Exit& exit) {
    if (!exit.message.empty()) report_error(exit.message);
    return exit.code;
  } catch (const std::bad_alloc&) {
    report_error("out of memory");
  } catch (const std::exception& error) {
    report_error(error.what());
  }
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  install_signals();
  return run(argc, argv);
}
