// tokenize and detokenize: only the vocabulary of a file is read, whatever its architecture.
#include <nlohmann/json.hpp>

#include "exit.hpp"
#include "formats/checkpoint.hpp"
#include "formats/message.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "text/model_text.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

using Json = nlohmann::ordered_json;

Tokenizer open_tokenizer(const std::string& path) {
  const Checkpoint file = must(open_checkpoint(path));
  auto tokenizer = read_tokenizer(file);
  if (!tokenizer.ok()) must(in_file(file.name(), tokenizer.error()));
  return must(std::move(tokenizer));
}

struct Tokenize {
  std::string model;
  Everywhere everywhere;
  TextSource source;
  std::optional<bool> bos;
  bool special = false, pieces = false;

  int run() const {
    const Tokenizer tokenizer = open_tokenizer(required_model(model, "tokenize"));
    const auto ids = must(tokenizer.encode(source.read("tokenize"), {bos, special}));
    if (!pieces) {
      out().write(dumped(ids));
      return kGood;
    }
    Json list = Json::array();
    for (const int id : ids) list.push_back({{"id", id}, {"piece", tokenizer.piece(id, true)}});
    if (everywhere.json) {
      out().write(dumped(list));
    } else {
      for (const Json& token : list)
        out().write(std::to_string(token["id"].get<int>()) + "\t" + dumped(token["piece"]));
    }
    return kGood;
  }
};

struct Detokenize {
  std::string model;
  Everywhere everywhere;
  TextSource source;
  IdSource ids;
  bool special = false;

  int run() const {
    const Tokenizer tokenizer = open_tokenizer(required_model(model, "detokenize"));
    if (source.given() && ids.given()) misuse("detokenize: two lists are given; accepted: IDS, --ids, -f FILE or -");
    const auto list = ids.given() ? ids.read("detokenize") : parse_ids(source.read("detokenize"), "detokenize");
    for (const int id : list)
      if (id >= tokenizer.vocab_size())
        fail("id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(tokenizer.vocab_size()));
    const std::string text = tokenizer.decode(list, special);
    out().write(everywhere.json ? dumped(Json{{"text", text}}) : text);
    return kGood;
  }
};

}  // namespace

Action declare_tokenize(Options& options) {
  auto verb = std::make_shared<Tokenize>();
  declare_model(options, verb->model);
  options.text("TEXT", verb->source.text, "the text, - for stdin");
  options.text("-f,--file FILE", verb->source.file, "every byte of a file, - for stdin");
  options.on_off("--bos", "--no-bos", verb->bos, "begin-of-text id in front; default: as the file says");
  options.flag("--special", verb->special, "control tokens spelled out in the text become their ids");
  options.flag("--pieces", verb->pieces, "one line per token: id and text");
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold tokenize -m model.gguf \"The capital of France is\"\n"
      "  fourfold tokenize -m model.gguf --no-bos -f prompt.txt\n"
      "  echo -n hello | fourfold tokenize -m model.gguf --pieces -");
  return [verb] { return verb->run(); };
}

Action declare_detokenize(Options& options) {
  auto verb = std::make_shared<Detokenize>();
  declare_model(options, verb->model);
  options.text("IDS", verb->source.text, "token ids: 1,2,3 or [1, 2, 3], - for stdin");
  options.text("-f,--file FILE", verb->source.file, "token ids from a file, - for stdin");
  declare_ids(options, verb->ids);
  options.flag("--special", verb->special, "spell control tokens out");
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold detokenize -m model.gguf 504,3575,282\n"
      "  fourfold tokenize -m model.gguf -f a.txt | fourfold detokenize -m model.gguf -");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
