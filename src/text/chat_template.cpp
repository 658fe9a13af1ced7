#include "text/chat_template.hpp"

#include <nlohmann/json.hpp>

#include "text/jinja/concat.hpp"
#include "text/jinja/jinja.hpp"

namespace fourfold {
namespace {

using jinja::concat;
using Json = nlohmann::ordered_json;

status malformed(std::string message) { return {Code::invalid_argument, std::move(message)}; }

std::string kind(const Json& json) {
  if (json.is_null()) return "null";
  return concat(json.is_array() || json.is_object() ? "an " : "a ", json.type_name());
}

status check_content(const Json& content, const std::string& where) {
  if (content.is_string() || content.is_null()) return {};
  if (!content.is_array())
    return malformed(concat(where, ".content is ", kind(content), "; give a string, null or a list of parts"));
  for (std::size_t i = 0; i < content.size(); ++i)
    if (!content[i].is_object() && !content[i].is_string())
      return malformed(concat(where, ".content[", i, "] is ", kind(content[i]), "; give an object"));
  return {};
}

status check_message(const Json& message, const std::string& where) {
  if (!message.is_object()) return malformed(concat(where, " is ", kind(message), "; give an object with \"role\""));
  const auto role = message.find("role");
  if (role == message.end()) return malformed(concat(where, " has no \"role\""));
  if (!role->is_string()) return malformed(concat(where, ".role is ", kind(*role), "; give a string"));
  const auto content = message.find("content");
  return content == message.end() ? status() : check_content(*content, where);
}

// Lists and objects within each other, at most; more would not suit the JSON library's recursive copies.
constexpr int kDeepest = 100;

bool too_deep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if ((c == '[' || c == '{') && ++depth > kDeepest) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

// A JSON list of objects, each passed by `check`.
result<Json> parse_list(const std::string& text, const char* name, status (*check)(const Json&, const std::string&)) {
  if (too_deep(text)) return status(Code::resource, concat(name, " are nested more than ", kDeepest, " deep"));
  Json list = Json::parse(text, nullptr, false);
  if (list.is_discarded()) return malformed(concat(name, " are not valid JSON"));
  if (!list.is_array()) return malformed(concat(name, " are ", kind(list), "; give a list of objects"));
  for (std::size_t i = 0; i < list.size(); ++i) FOURFOLD_TRY(check(list[i], concat(name, "[", i, "]")));
  return result<Json>(std::move(list));
}

status check_tool(const Json& tool, const std::string& where) {
  return tool.is_object() ? status() : malformed(concat(where, " is ", kind(tool), "; give an object"));
}

}  // namespace

result<std::string> apply_chat_template(std::string_view template_source, const ChatInput& input) {
  const auto parsed = jinja::parse(template_source);
  if (!parsed) return parsed.error();
  auto messages = parse_list(input.messages, "messages", check_message);
  if (!messages) return messages.error();
  Json context = {{"messages", std::move(*messages)}, {"tools", nullptr}};
  if (!input.tools.empty()) {
    auto tools = parse_list(input.tools, "tools", check_tool);
    if (!tools) return tools.error();
    context["tools"] = std::move(*tools);
  }
  context["bos_token"] = input.bos_text;
  context["eos_token"] = input.eos_text;
  context["add_generation_prompt"] = input.add_generation_prompt;
  return parsed->render(context);
}

}  // namespace fourfold
