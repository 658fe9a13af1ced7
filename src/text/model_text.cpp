#include "text/model_text.hpp"

#include "formats/checkpoint.hpp"

namespace fourfold {

result<Tokenizer> read_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.format() == Checkpoint::Format::gguf) return Tokenizer::from_gguf(checkpoint.metadata());
  auto vocabulary = checkpoint.side_file("tokenizer.json");
  if (!vocabulary.ok()) return vocabulary.error();
  return status{Code::unsupported, "tokenizer.json is not read by this version"};
}

result<std::string> read_chat_template(const Checkpoint& checkpoint) {
  const status none{Code::not_found,
                    "the model's file has no chat template (tokenizer.chat_template or chat_template.jinja)"};
  if (checkpoint.format() == Checkpoint::Format::gguf) {
    const auto text = checkpoint.metadata().get_string("tokenizer.chat_template");
    return text.ok() ? result<std::string>(std::string(*text)) : none;
  }
  auto file = checkpoint.side_file("chat_template.jinja");
  if (file.ok()) return file;
  const auto config = checkpoint.side_file("tokenizer_config.json");
  if (!config.ok()) return none;
  const auto keys = metadata_from_json(*config, "tokenizer_config.json");
  if (!keys.ok()) return keys.error();
  const auto text = keys->get_string("chat_template");
  return text.ok() ? result<std::string>(std::string(*text)) : none;
}

}  // namespace fourfold
