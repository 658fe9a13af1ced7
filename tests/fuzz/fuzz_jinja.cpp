// Templates from any bytes: no crash, an error with a message, and a text within the limits.
// The input is a template; a zero byte may end it, with the JSON text of messages after that.
#include <nlohmann/json.hpp>

#include "text/chat_template.hpp"
#include "text/jinja/jinja.hpp"

using namespace fourfold;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto source = input.substr(0, input.find('\0'));
  ChatInput chat;
  chat.bos_text = "<s>";
  chat.messages = source.size() < input.size()
                      ? std::string(input.substr(source.size() + 1))
                      : R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "n": [1, 2.5]}])";
  const auto text = apply_chat_template(source, chat);
  if (!text && text.error().message().empty()) __builtin_trap();
  if (text && text->size() > (std::size_t{24} << 20)) __builtin_trap();
  const auto parsed = jinja::parse(source);
  if (!parsed && parsed.error().message().rfind("template line ", 0) != 0) __builtin_trap();
  return 0;
}
