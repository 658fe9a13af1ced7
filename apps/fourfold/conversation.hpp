// Conversation: messages, and the text a model's chat template makes of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fourfold::cli {

struct Message {
  std::string role, content;
};

class Conversation {
 public:
  Conversation(std::string chat_template, std::string bos_text, std::string eos_text)
      : template_(std::move(chat_template)), bos_text_(std::move(bos_text)), eos_text_(std::move(eos_text)) {}

  const std::vector<Message>& messages() const { return messages_; }
  void set_system(const std::string& text);  // empty: none
  void add(const std::string& role, const std::string& content) { messages_.push_back({role, content}); }
  void clear();  // all but the system message
  // Takes back the last message if it is of this role.
  bool take_back(const std::string& role);
  // Drops the oldest question with its answer; the system message and the last question stay. False: nothing to drop.
  bool drop_oldest();

  // With the start of the model's answer at the end. A template's error ends the program's verb with its message.
  std::string rendered() const;
  bool starts_with_bos(const std::string& text) const { return !bos_text_.empty() && text.starts_with(bos_text_); }

  std::string json() const;
  // Replaces the messages; an error message, or nothing.
  std::string read_json(const std::string& text);

 private:
  bool has_system() const { return !messages_.empty() && messages_.front().role == "system"; }

  std::string template_, bos_text_, eos_text_;
  std::vector<Message> messages_;
};

}  // namespace fourfold::cli
