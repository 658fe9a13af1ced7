// logits: the raw output of a model at chosen positions, as a .npy file. Rows are written as they are computed.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/chosen_experts.hpp"
#include "exit.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "npy.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

constexpr std::size_t kRowBytes = std::size_t{64} << 20;  // logits held at once, where the chunk is ours to choose

struct Logits {
  std::string model, positions = "all", output;
  Everywhere everywhere;
  Computing computing;
  TextSource source;
  IdSource ids;
  std::optional<bool> bos;
  bool special = false;
  int chunk = 0;
  std::optional<std::string> experts;

  int run() const;
};

// "all", "last" or "0,5,-1" as ascending positions below `count`.
std::vector<int> wanted_positions(const std::string& text, int count) {
  std::vector<int> wanted;
  if (text == "all") {
    for (int i = 0; i < count; ++i) wanted.push_back(i);
    return wanted;
  }
  if (text == "last") return {count - 1};
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    int position = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, position);
    if (error != std::errc{} || stop != text.data() + end)
      misuse("--positions: '" + text + "' is not all, last or a list such as 0,5,-1");
    if (position < 0) position += count;
    if (position < 0 || position >= count)
      fail("--positions: " + text.substr(at, end - at) + " is outside the " + std::to_string(count) + " positions");
    if (!wanted.empty() && position <= wanted.back()) misuse("--positions: '" + text + "' is not ascending");
    wanted.push_back(position);
    at = end + 1;
  }
  return wanted;
}

void write_experts(const std::string& path, const std::vector<ChosenExperts>& layers) {
  nlohmann::ordered_json json;
  for (const ChosenExperts& layer : layers) json[layer.layer] = layer.chosen;
  OutputFile file(path);
  const std::string text = dumped(json);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

int Logits::run() const {
  if (output.empty()) misuse("logits: where to? -o FILE.npy is missing");
  if (output == "-") misuse("logits: -o - names no file; accepted: -o FILE.npy, or -o /dev/stdout");
  const Model m = must(load(required_model(model, "logits")));
  std::vector<ChosenExperts> routed = experts ? routed_layers(m.program()) : std::vector<ChosenExperts>{};
  if (experts && routed.empty()) fail("--experts " + *experts + ": this model has no routed layers");
  if (ids.given() && source.given()) misuse("logits: ids and a text are given; accepted: one of them");
  const auto list = ids.given() ? ids.read("logits") : must(m.tokenize(source.read("logits"), {bos, special}));
  const int count = static_cast<int>(list.size());
  if (count == 0) fail("logits: there is no token to evaluate");
  if (count > m.context())
    fail("the prompt has " + std::to_string(count) + " tokens, the model's context " + std::to_string(m.context()));
  const auto wanted = wanted_positions(positions, count);

  const auto vocab = static_cast<std::size_t>(m.vocab());
  const int fitting = static_cast<int>(std::max<std::size_t>(1, kRowBytes / (vocab * sizeof(float))));
  const int step = chunk > 0 ? chunk : wanted.size() > 1 ? std::min(computing.batch, fitting) : computing.batch;
  SessionOptions options = session_options(everywhere, computing);
  if (options.context == 0) options.context = count;
  options.batch = step;
  options.debug = !routed.empty();  // so that choices can be read
  Session session = open_session(m, options);
  OutputFile file(output);
  file.write(npy_header(wanted.size(), vocab));

  Progress progress("evaluating", count, "tokens");
  auto next = wanted.begin();
  for (int done = 0; done < count;) {
    int n = std::min(step, count - done);
    if (count - done - n == 1 && n > 2) --n;  // one token alone would count as decoded
    const auto first = next != wanted.end() ? *next : count;
    const int kept = std::max(0, done + n - std::max(first, done));
    must(session.eval(std::span(list).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(n)), kept));
    for (; next != wanted.end() && *next < done + n; ++next)
      file.write(std::as_bytes(session.logits(*next - (done + n - kept))));
    append_chosen(session, n, routed);
    done += n;
    progress.update(static_cast<double>(done) / count);
  }
  progress.clear();
  file.commit();
  if (experts) write_experts(*experts, routed);
  if (everywhere.json) out().write(dumped({{"file", output}, {"shape", {wanted.size(), vocab}}}));
  return kGood;
}

}  // namespace

Action declare_logits(Options& options) {
  auto verb = std::make_shared<Logits>();
  declare_model(options, verb->model);
  declare_ids(options, verb->ids);
  options.text("-p,--prompt TEXT", verb->source.text, "the text to evaluate");
  options.text("-f,--file FILE", verb->source.file, "every byte of a file, - for stdin");
  options.on_off("--bos", "--no-bos", verb->bos, "begin-of-text id in front; default: as the file says");
  options.flag("--special", verb->special, "control tokens spelled out in the text become their ids");
  options.text("--positions WHICH", verb->positions, "all (default), last, or ascending: 0,5,-1");
  options.text("-o,--output FILE", verb->output, "float32 [positions, vocab], as .npy");
  options.integer("--chunk N", verb->chunk, 1, 4096, "evaluate N tokens at a time, 1: as in decoding");
  options.text("--experts FILE", verb->experts, "write the experts chosen (models with routed layers)");
  declare_computing(options, verb->computing);
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold logits -m model.gguf --ids 504,3575,282 -o logits.npy\n"
      "  fourfold logits -m model.gguf --ids-file ids.txt --positions last --f32 -o last.npy");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
