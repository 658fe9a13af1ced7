// run: complete a prompt. The text streams to stdout, prompt first; the closing line with the figures goes to stderr.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "exit.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "signals.hpp"
#include "text/tokenizer.hpp"
#include "timings.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

struct Run {
  std::string model;
  Everywhere everywhere;
  Computing computing;
  GenerateOptions generate;
  TextSource source;
  std::optional<std::string> standard_input;  // "-"
  IdSource ids;
  std::optional<bool> bos;
  bool hide_prompt = false;

  int run();

 private:
  std::vector<int> prompt(const Model& model, std::string& text);
  int finish(const Generation& generation, Session& session, Timings& timings, const std::string& text) const;
};

// The prompt's ids; its text where there is one.
std::vector<int> Run::prompt(const Model& model, std::string& text) {
  if (standard_input && *standard_input != "-")
    misuse("run: '" + *standard_input + "' is not understood; a prompt follows -p");
  if (standard_input) {
    if (source.given()) misuse("run: two prompts are given; accepted: -p TEXT, -f FILE or - (stdin)");
    source.file = "-";
  }
  if (source.text && source.file) misuse("run: two prompts are given; accepted: -p TEXT, -f FILE or - (stdin)");
  if (ids.given() && source.given()) misuse("run: ids and a text are given; accepted: one of them");
  if (ids.given()) return ids.read("run");
  if (!source.given()) misuse("run: which prompt? accepted: -p TEXT, -f FILE, - (stdin) or --ids 1,2,3");
  text = source.file ? read_input(*source.file) : *source.text;
  return must(model.tokenize(text, {bos, generate.special}));
}

// Writes pieces, or ids where there is no vocabulary, as they come.
class Stream {
 public:
  Stream(const Generation& generation, bool has_text) : generation_(generation), has_text_(has_text) {}
  void show(std::string_view piece) {
    if (has_text_) {
      out().write(piece);
    } else {
      const auto ids = generation_.ids();
      for (; shown_ < ids.size(); ++shown_) out().write((shown_ == 0 ? "" : ",") + std::to_string(ids[shown_]));
    }
    out().flush();
  }

 private:
  const Generation& generation_;
  bool has_text_;
  std::size_t shown_ = 0;
};

int Run::run() {
  const Stopwatch since_start;
  const Model m = must(load(required_model(model, "run")));
  std::string text;
  const auto prompt_ids = prompt(m, text);
  if (prompt_ids.empty()) fail("the prompt is empty");
  Timings timings;
  Session session = open_session(m, session_options(everywhere, computing));
  timings.load_s = since_start.seconds();
  timings.prefill_tokens = static_cast<int>(prompt_ids.size());

  const Interruptible guard;
  generate.cancel = &interrupted();
  const Stopwatch since_prompt;
  Generation generation = session.generate(prompt_ids, generate);
  timings.prefill_s = since_prompt.seconds();
  if (generation.finish() == Finish::error) must(generation.error());
  if (!everywhere.json && !hide_prompt) out().write(text);
  if (!everywhere.json) out().flush();

  std::string answer;
  Stream stream(generation, m.tokenizer().ok());
  while (const auto piece = generation.next()) {
    if (timings.first_token_s == 0) timings.first_token_s = since_prompt.seconds();
    answer += *piece;
    if (!everywhere.json) stream.show(*piece);
  }
  timings.decode_s = since_prompt.seconds() - timings.prefill_s;
  return finish(generation, session, timings, answer);
}

int Run::finish(const Generation& generation, Session& session, Timings& timings, const std::string& answer) const {
  timings.prefill_tokens = std::min(timings.prefill_tokens, session.position());  // fewer if it was interrupted
  timings.decode_tokens = session.position() - timings.prefill_tokens;
  compare_with_limits(timings, session, everywhere, computing.f32);
  if (everywhere.json) {
    out().write(dumped({{"ids", generation.ids()},
                        {"text", answer},
                        {"finish", name(generation.finish())},
                        {"timings", to_json(timings)}}));
  } else {
    out().write("\n");
  }
  out().flush();
  if (generation.finish() == Finish::error) must(generation.error());
  if (!everywhere.json) remark(dim(closing_line(timings, stated(generation.finish(), session))));
  return generation.finish() == Finish::cancelled ? kInterrupted : kGood;
}

}  // namespace

Action declare_run(Options& options) {
  auto verb = std::make_shared<Run>();
  declare_model(options, verb->model);
  options.text("-p,--prompt TEXT", verb->source.text, "the prompt");
  options.text("-f,--file FILE", verb->source.file, "the prompt: every byte of a file, - for stdin");
  options.text("STDIN", verb->standard_input, "- reads the prompt from stdin");
  declare_ids(options, verb->ids);
  options.integer("-n,--predict,--n-predict N", verb->generate.max_tokens, -1, std::numeric_limits<int>::max(),
                  "most tokens to generate; -1 (default): until the model ends or the context is full");
  options.flag("--ignore-eos", verb->generate.ignore_eos, "go on where the model would end");
  options.texts("--stop TEXT", verb->generate.stop, "end before this text; may be given several times");
  options.on_off("--bos", "--no-bos", verb->bos, "begin-of-text id in front; default: as the file says");
  options.flag("--special", verb->generate.special, "control tokens match in the prompt and show in the answer");
  options.flag("--no-display-prompt", verb->hide_prompt, "print the answer only");
  declare_computing(options, verb->computing);
  declare_sampling(options, verb->generate.sampling);
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold run -m model.gguf -p \"The capital of France is\" -n 16\n"
      "  fourfold run -m model.gguf -f prompt.txt --temp 0 --json\n"
      "  fourfold run -m folder --ids 1,2,3 -n 16 --ignore-eos");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
