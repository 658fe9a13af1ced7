#include "models/keys.hpp"

#include <algorithm>
#include <sstream>

namespace fourfold {
namespace {

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

const MetaValue* Keys::look(std::string_view key) {
  const std::string name = prefix_ + std::string(key);
  seen_.insert(name);
  return metadata_.find(name);
}

template <class T>
T Keys::take(std::string_view key, const std::optional<T>& fallback,
             result<T> (Metadata::*get)(std::string_view) const) {
  if (!look(key)) {
    if (fallback) return *fallback;
    errors_.push_back(prefix_ + std::string(key) + " is missing");
    return T{};
  }
  const auto value = (metadata_.*get)(prefix_ + std::string(key));
  if (value.ok()) return *value;
  errors_.push_back(value.error().message());
  return T{};
}

bool Keys::has(std::string_view key) { return look(key) != nullptr; }

bool Keys::has_text(std::string_view key) {
  const MetaValue* value = look(key);
  return value && std::holds_alternative<std::string_view>(*value);
}

bool Keys::has_list(std::string_view key) {
  const MetaValue* value = look(key);
  return value && std::holds_alternative<std::vector<std::int64_t>>(*value);
}

std::int64_t Keys::integer(std::string_view key, std::optional<std::int64_t> fallback) {
  return take<std::int64_t>(key, fallback, &Metadata::get_int);
}

double Keys::number(std::string_view key, std::optional<double> fallback) {
  const double value = take<double>(key, fallback, &Metadata::get_float);
  if (value > -1e30 && value < 1e30) return value;
  refuse(key, number_text(value), "a finite number");
  return 1;
}

bool Keys::flag(std::string_view key, std::optional<bool> fallback) {
  return take<bool>(key, fallback, &Metadata::get_bool);
}

std::string Keys::text(std::string_view key, std::optional<std::string_view> fallback) {
  return std::string(take<std::string_view>(key, fallback, &Metadata::get_string));
}

std::vector<std::int64_t> Keys::integers(std::string_view key) {
  const auto list = take<std::span<const std::int64_t>>(key, std::span<const std::int64_t>{}, &Metadata::get_ints);
  return {list.begin(), list.end()};
}

std::vector<std::string> Keys::texts(std::string_view key) {
  const auto list =
      take<std::span<const std::string_view>>(key, std::span<const std::string_view>{}, &Metadata::get_strings);
  return {list.begin(), list.end()};
}

std::vector<double> Keys::numbers(std::string_view key) {
  return take<std::vector<double>>(key, std::vector<double>{}, &Metadata::get_floats);
}

int Keys::count(std::string_view key, std::int64_t low, std::int64_t high, std::optional<std::int64_t> fallback) {
  if (fallback == 0 && !has(key)) return 0;
  const std::size_t before = errors_.size();
  const std::int64_t value = integer(key, fallback);
  if (errors_.size() == before && (value < low || value > high))
    refuse(key, std::to_string(value), std::to_string(low) + " to " + std::to_string(high));
  return static_cast<int>(std::clamp(value, low, high));
}

int Keys::derived(std::string_view what, double value, std::int64_t low, std::int64_t high) {
  const auto least = static_cast<double>(low), most = static_cast<double>(high);
  if (!(value >= least && value <= most))
    refuse(what, number_text(value), std::to_string(low) + " to " + std::to_string(high));
  return static_cast<int>(std::clamp(value, least, most));
}

void Keys::refuse(std::string_view key, const std::string& value, const std::string& accepted) {
  errors_.push_back(prefix_ + std::string(key) + " is " + value + "; accepted: " + accepted);
}

void Keys::expect(std::string_view key, bool value) {
  if (has(key) && flag(key) != value) refuse(key, value ? "false" : "true", value ? "true" : "false");
}

void Keys::expect(std::string_view key, double value) {
  if (!has(key)) return;
  const std::size_t before = errors_.size();
  if (const double found = number(key); errors_.size() == before && found != value)
    refuse(key, number_text(found), number_text(value));
}

void Keys::expect(std::string_view key, std::string_view value) {
  if (!has(key)) return;
  if (const std::string found = text(key); found != value)
    refuse(key, '"' + found + '"', '"' + std::string(value) + '"');
}

void Keys::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) ignored_.push_back(prefix_ + std::string(key));
}

status Keys::finish() {
  const auto ignored = [&](const std::string& key) {
    return std::any_of(ignored_.begin(), ignored_.end(), [&](const std::string& pattern) {
      return key == pattern || (pattern.ends_with('.') && key.starts_with(pattern));
    });
  };
  for (const auto& entry : metadata_.entries())
    if (entry.key.starts_with(prefix_) && !seen_.contains(entry.key) && !ignored(entry.key))
      errors_.push_back("unknown hyper-parameter " + entry.key +
                        ": it could change the result, so the model is refused");
  if (errors_.empty()) return {};
  std::string message = errors_[0];
  for (std::size_t i = 1; i < errors_.size(); ++i) message += "\n" + errors_[i];
  return {Code::unsupported, message};
}

}  // namespace fourfold
