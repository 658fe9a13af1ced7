#include "text/chat_template.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace fourfold {
namespace {

constexpr const char* kList = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}";

std::string error_of(const std::string& messages, const std::string& tools = "") {
  const auto out = apply_chat_template(kList, {messages, tools, "", "", true});
  return out ? "no error, but: " + *out : out.error().message();
}

std::string smollm2() {
  std::ifstream file(FOURFOLD_TEST_DATA "/chat_templates/smollm2.jinja");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ChatTemplate, RendersARealTemplate) {
  ChatInput input{R"([{"role": "user", "content": "Hi\n"}])", "", "", "", true};
  const std::string head =
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
  EXPECT_EQ(*apply_chat_template(smollm2(), input), head + "<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\n");
  input.add_generation_prompt = false;
  EXPECT_EQ(*apply_chat_template(smollm2(), input), head + "<|im_start|>user\nHi\n<|im_end|>\n");
}

TEST(ChatTemplate, VariablesAreTransformers) {
  const char* source =
      "{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}|{{ tools is none }}|{{ tools|tojson }}|{{ messages "
      "}}";
  EXPECT_EQ(*apply_chat_template(source, {"[]", "", "<s>", "</s>", true}), "<s>|</s>|True|True|null|[]");
  EXPECT_EQ(*apply_chat_template(source, {R"([{"role": "r"}])", R"([{"b": 1, "a": [true]}])", "", "", false}),
            "||False|False|[{\"b\": 1, \"a\": [true]}]|[{'role': 'r'}]");
}

TEST(ChatTemplate, MessagesAreChecked) {
  EXPECT_EQ(error_of("[{"), "messages are not valid JSON");
  EXPECT_EQ(error_of(""), "messages are not valid JSON");
  EXPECT_EQ(error_of("{}"), "messages are an object; give a list of objects");
  EXPECT_EQ(error_of("[1]"), "messages[0] is a number; give an object with \"role\"");
  EXPECT_EQ(error_of(R"([{"role": "user"}, {"content": "x"}])"), "messages[1] has no \"role\"");
  EXPECT_EQ(error_of(R"([{"role": 5}])"), "messages[0].role is a number; give a string");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": 5}])"),
            "messages[0].content is a number; give a string, null or a list of parts");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": ["a", 5]}])"),
            "messages[0].content[1] is a number; give an object");
  EXPECT_EQ(error_of("[]", "{}"), "tools are an object; give a list of objects");
  EXPECT_EQ(error_of("[]", "[[]]"), "tools[0] is an array; give an object");
  EXPECT_EQ(error_of("[]", "nope"), "tools are not valid JSON");
}

TEST(ChatTemplate, MessagesOfManyShapesPass) {
  EXPECT_EQ(error_of("[]"), "no error, but: ");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": null}, {"role": "tool"}])"), "no error, but: [user:None][tool:]");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": [{"type": "text"}]}])"),
            "no error, but: [user:[{'type': 'text'}]]");
  EXPECT_EQ(error_of("[{\"role\": \"user\", \"content\": \"\\ud83d\\ude00\xc3\xa9\"}]"),
            "no error, but: [user:\xf0\x9f\x98\x80\xc3\xa9]");
}

TEST(ChatTemplate, DeepJsonIsRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const auto out = apply_chat_template(kList, {"[{\"role\": \"x\", \"y\": " + deep + "}]", "", "", "", true});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), Code::resource);
  EXPECT_EQ(out.error().message(), "messages are nested more than 100 deep");
  const std::string brackets = "[{\"role\": \"x\", \"content\": \"\\\"" + std::string(1000, '[') + "\"}]";
  EXPECT_TRUE(apply_chat_template(kList, {brackets, "", "", "", true}).ok());
}

TEST(ChatTemplate, TemplateErrorsNameTheLine) {
  const auto out = apply_chat_template("a\n{{ messages.x.y }}", {"[]", "", "", "", true});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message(), "template line 2: 'list object' has no attribute 'x'");
}

}  // namespace
}  // namespace fourfold
