// The template language of chat templates: Jinja as Hugging Face's libraries run it.
//
// trim_blocks and lstrip_blocks are on, loop controls and {% generation %} are known, nothing is escaped by itself,
// values are immutable, and templates are single: include, import and extends are refused. Numbers are 64 bits wide.
// A template ends, whatever it says: nesting, steps and memory are bounded (jinja/value.hpp has the limits).
#pragma once

#include <fourfold/status.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fourfold::jinja {

class Template {
 public:
  // Needs an object, whose members become variables. The text, or an error that begins "template line N: " (a resource
  // error: a limit was met; else invalid_argument, also where the template calls raise_exception).
  result<std::string> render(const nlohmann::ordered_json& context) const;

 private:
  struct Tree;
  explicit Template(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}
  friend result<Template> parse(std::string_view source);

  std::shared_ptr<const Tree> tree_;
};

// Malformed or unsupported source is an error that begins "template line N: ".
result<Template> parse(std::string_view source);

}  // namespace fourfold::jinja
