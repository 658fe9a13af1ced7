// Values as text: Python's str and repr, and json.dumps.
#pragma once

#include "text/jinja/value.hpp"

namespace fourfold::jinja {

// What {{ value }} prints.
std::string to_text(const Value& value);

// The same without a copy where the value is text already. Views a value that outlives it.
class Printed {
 public:
  explicit Printed(const Value& value)
      : made_(value.text() ? std::string() : to_text(value)),
        view_(value.text() ? std::string_view(value.text()->bytes) : std::string_view(made_)) {}
  explicit Printed(Value&&) = delete;
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  operator std::string_view() const { return view_; }

 private:
  std::string made_;
  std::string_view view_;
};

// Python's repr.
std::string repr(const Value& value);

// Python's repr of a float: the shortest digits that read back the same.
std::string repr(double value);

struct JsonStyle {
  std::optional<std::string> indent;  // none: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

// Python's json.dumps. A value that JSON has no form for is a Failure.
std::string to_json(const Value& value, const JsonStyle& style);

}  // namespace fourfold::jinja
