// Keys: reads a file's hyper-parameters and remembers which were asked for, so that one nobody understood is refused
// by name instead of being ignored.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/metadata.hpp"
#include "fourfold/status.hpp"

namespace fourfold {

class Keys {
 public:
  // Only keys that start with `prefix` ("llama.", "", "text_config.") are looked at; names below omit it.
  Keys(const Metadata& metadata, std::string prefix) : metadata_(metadata), prefix_(std::move(prefix)) {}

  bool has(std::string_view key);
  bool has_text(std::string_view key);
  bool has_list(std::string_view key);  // of integers or booleans
  // The value, the fallback when the key is absent, or (without fallback) an error that names the key.
  std::int64_t integer(std::string_view key, std::optional<std::int64_t> fallback = {});
  double number(std::string_view key, std::optional<double> fallback = {});
  bool flag(std::string_view key, std::optional<bool> fallback = {});
  std::string text(std::string_view key, std::optional<std::string_view> fallback = {});
  std::vector<std::int64_t> integers(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  std::vector<double> numbers(std::string_view key);  // infinities stand; empty when absent

  // These do not change the result; a key ending in '.' stands for everything below it.
  void ignore(std::initializer_list<std::string_view> keys);
  // Reports a value this build cannot honour: "KEY is VALUE: WHY".
  void refuse(std::string_view key, const std::string& value, const std::string& accepted);
  // Refuses unless the key is absent or has this value.
  void expect(std::string_view key, bool value);
  void expect(std::string_view key, double value);
  void expect(std::string_view key, std::string_view value);
  void expect(std::string_view key, const char* value) { expect(key, std::string_view(value)); }  // not a bool
  // A whole number within [low, high], or an error; a fallback of 0 stands for none and may lie outside.
  int count(std::string_view key, std::int64_t low, std::int64_t high, std::optional<std::int64_t> fallback = {});
  // The same of what follows from other keys ("expand x hidden_size"); parts of a whole are dropped.
  int derived(std::string_view what, double value, std::int64_t low, std::int64_t high);

  // Every error so far, and every key nobody asked for, one a line.
  status finish();

 private:
  const MetaValue* look(std::string_view key);
  template <class T>
  T take(std::string_view key, const std::optional<T>& fallback, result<T> (Metadata::*get)(std::string_view) const);

  const Metadata& metadata_;
  std::string prefix_;
  std::set<std::string, std::less<>> seen_;
  std::vector<std::string> ignored_;
  std::vector<std::string> errors_;
};

}  // namespace fourfold
