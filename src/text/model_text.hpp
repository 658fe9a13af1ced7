// What a model's file says about text: its vocabulary and its chat template, whatever the format or architecture.
#pragma once

#include <fourfold/status.hpp>
#include <string>
#include <string_view>

#include "text/tokenizer.hpp"

namespace fourfold {

class Checkpoint;

// From `tokenizer.ggml.*`, or from tokenizer.json and tokenizer_config.json beside safetensors weights.
result<Tokenizer> read_tokenizer(const Checkpoint& checkpoint);

// The source text of the chat template: `tokenizer.chat_template`, chat_template.jinja, or the string "chat_template"
// of tokenizer_config.json. not_found when there is none.
result<std::string> read_chat_template(const Checkpoint& checkpoint);

// How the model spells its "bos" or "eos" token; empty when the file does not say.
std::string special_text(const Checkpoint& checkpoint, std::string_view which);

}  // namespace fourfold
