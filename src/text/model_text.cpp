#include "text/model_text.hpp"

#include "formats/checkpoint.hpp"

namespace fourfold {

result<Tokenizer> read_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.format() == Checkpoint::Format::gguf) return Tokenizer::from_gguf(checkpoint.metadata());
  auto vocabulary = checkpoint.side_file("tokenizer.json");
  if (!vocabulary.ok()) return vocabulary.error();
  const auto config = checkpoint.side_file("tokenizer_config.json");
  return Tokenizer::from_json(*vocabulary, config.ok() ? *config : std::string{});
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

std::string special_text(const Checkpoint& checkpoint, std::string_view which) {
  const std::string name(which);
  if (checkpoint.format() == Checkpoint::Format::gguf) {
    const auto id = checkpoint.metadata().get_int("tokenizer.ggml." + name + "_token_id");
    const auto tokens = checkpoint.metadata().get_strings("tokenizer.ggml.tokens");
    const bool known = id.ok() && tokens.ok() && *id >= 0 && static_cast<std::size_t>(*id) < tokens->size();
    return known ? std::string((*tokens)[static_cast<std::size_t>(*id)]) : std::string{};
  }
  const auto config = checkpoint.side_file("tokenizer_config.json");
  if (!config.ok()) return {};
  const auto keys = metadata_from_json(*config, "tokenizer_config.json");
  if (!keys.ok()) return {};
  auto text = keys->get_string(name + "_token");  // the text, or an object with its content
  if (!text.ok()) text = keys->get_string(name + "_token.content");
  return text.ok() ? std::string(*text) : std::string{};
}

}  // namespace fourfold
