#include "conversation.hpp"

#include <nlohmann/json.hpp>

#include "exit.hpp"
#include "json_out.hpp"
#include "text/chat_template.hpp"

namespace fourfold::cli {

void Conversation::set_system(const std::string& text) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), {"system", text});
}

void Conversation::clear() { messages_.resize(has_system() ? 1 : 0); }

bool Conversation::take_back(const std::string& role) {
  if (messages_.empty() || messages_.back().role != role) return false;
  messages_.pop_back();
  return true;
}

bool Conversation::drop_oldest() {
  const std::size_t first = has_system() ? 1 : 0;
  std::size_t end = first + 1;
  while (end < messages_.size() && messages_[end].role != "user") ++end;
  if (end >= messages_.size()) return false;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                  messages_.begin() + static_cast<std::ptrdiff_t>(end));
  return true;
}

std::string Conversation::rendered() const {
  return must(apply_chat_template(template_, {json(), "", bos_text_, eos_text_, true}));
}

std::string Conversation::json() const {
  auto list = nlohmann::ordered_json::array();
  for (const Message& m : messages_) list.push_back({{"role", m.role}, {"content", m.content}});
  return dumped(list);
}

std::string Conversation::read_json(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return "not a JSON list of messages";
  std::vector<Message> messages;
  for (const auto& item : list) {
    if (!item.is_object() || !item.contains("role") || !item.contains("content") || !item["role"].is_string() ||
        !item["content"].is_string())
      return "message " + std::to_string(messages.size()) + " has no text \"role\" and \"content\"";
    messages.push_back({item["role"].get<std::string>(), item["content"].get<std::string>()});
  }
  messages_ = std::move(messages);
  return {};
}

}  // namespace fourfold::cli
