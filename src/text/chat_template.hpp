// A conversation as the text that a model was trained on.
#pragma once

#include <fourfold/status.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fourfold {

// Messages and tools are JSON text, so that callers need not hold a JSON library's types.
struct ChatInput {
  std::string messages;  // a list of objects, each with a text "role"; "content" is text, null, or a list of parts
  std::string tools;     // a list of objects, handed to the template as they are; empty: none
  std::string bos_text, eos_text;
  bool add_generation_prompt = true;
};

// Renders a model's template (jinja/jinja.hpp says which language) with the variables messages, tools (none without
// tools), bos_token, eos_token and add_generation_prompt. Exactly the template's bytes, no newline added. Malformed
// JSON and messages of another shape are errors that name the message; a template's own errors name its line.
result<std::string> apply_chat_template(std::string_view template_source, const ChatInput& input);

}  // namespace fourfold
