// template: a conversation as a model's chat template renders it, exactly the bytes. Only a file's metadata is read.
#include <nlohmann/json.hpp>

#include "exit.hpp"
#include "formats/checkpoint.hpp"
#include "formats/message.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "text/chat_template.hpp"
#include "text/model_text.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

struct Template {
  std::string model;
  Everywhere everywhere;
  std::optional<std::string> source, messages, tools, bos_text, eos_text;
  bool no_generation_prompt = false;

  int run() const {
    if (source && source->empty()) misuse("template: --template is empty; accepted: a file's name, or - for stdin");
    if (!source && model.empty()) misuse("template: which template? accepted: -m MODEL or --template FILE");
    if (!messages) misuse("template: which messages? --messages FILE.json is missing");
    ChatInput input;
    std::string text;
    if (!model.empty()) {
      const Checkpoint file = must(open_checkpoint(model));
      if (!source) {
        auto found = read_chat_template(file);
        if (!found.ok()) must(in_file(file.name(), found.error()));
        text = *found;
      }
      input.bos_text = special_text(file, "bos");
      input.eos_text = special_text(file, "eos");
    }
    if (source) text = read_input(*source);
    if (bos_text) input.bos_text = *bos_text;
    if (eos_text) input.eos_text = *eos_text;
    input.messages = read_input(*messages);
    if (tools) input.tools = read_input(*tools);
    input.add_generation_prompt = !no_generation_prompt;
    const std::string rendered = must(apply_chat_template(text, input));
    out().write(everywhere.json ? dumped(nlohmann::ordered_json{{"text", rendered}}) : rendered);
    return kGood;
  }
};

}  // namespace

Action declare_template(Options& options) {
  auto verb = std::make_shared<Template>();
  declare_model(options, verb->model);
  options.text("--template FILE", verb->source, "a Jinja template, instead of the model's own");
  options.text("--messages FILE", verb->messages, "a JSON list of {\"role\": ..., \"content\": ...}, - for stdin");
  options.text("--tools FILE", verb->tools, "a JSON list of tools, handed to the template");
  options.text("--bos-text TEXT", verb->bos_text, "bos_token, instead of the model's own");
  options.text("--eos-text TEXT", verb->eos_text, "eos_token, instead of the model's own");
  options.flag("--no-generation-prompt", verb->no_generation_prompt, "end after the last message");
  declare_everywhere(options, verb->everywhere);
  options.examples(
      "  fourfold template -m model.gguf --messages chat.json\n"
      "  fourfold template --template chat.jinja --messages chat.json --bos-text \"<s>\"");
  return [verb] { return verb->run(); };
}

}  // namespace fourfold::cli
