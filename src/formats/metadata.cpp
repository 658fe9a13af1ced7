#include "formats/metadata.hpp"

#include <array>
#include <limits>

#include "formats/message.hpp"

namespace fourfold {
namespace {

constexpr std::string_view kInteger = "an integer", kFloat = "a number", kBool = "a boolean", kString = "a string",
                           kInts = "an array of integers", kFloats = "an array of numbers",
                           kStrings = "an array of strings";

bool is_empty_array(const MetaValue& value) {
  return std::visit(
      [](const auto& v) {
        if constexpr (requires { v.capacity(); }) return v.empty();
        return false;
      },
      value);
}

// "the integer 7", "the string 'abc'", "an array of strings".
std::string described(const MetaValue& value) {
  std::string out(type_of(value).starts_with("array") ? "an " : "the ");
  out.append(type_of(value));
  if (const auto* v = std::get_if<bool>(&value)) out.append(*v ? " true" : " false");
  if (const auto* v = std::get_if<std::int64_t>(&value)) out.append(" ").append(std::to_string(*v));
  if (const auto* v = std::get_if<std::uint64_t>(&value)) out.append(" ").append(std::to_string(*v));
  if (const auto* v = std::get_if<double>(&value)) out.append(" ").append(std::to_string(*v));
  if (const auto* v = std::get_if<std::string_view>(&value)) out.append(" ").append(quote(*v));
  return out;
}

}  // namespace

std::string_view type_of(const MetaValue& value) {
  constexpr std::array<std::string_view, std::variant_size_v<MetaValue>> kNames = {
      "boolean", "integer", "integer", "float", "string", "array of integers", "array of numbers", "array of strings",
  };
  return kNames[value.index()];
}

bool Metadata::add(std::string_view key, MetaValue value) {
  if (!index_.emplace(key, entries_.size()).second) return false;
  entries_.push_back({std::string(key), std::move(value)});
  return true;
}

const MetaValue* Metadata::find(std::string_view key) const {
  const auto at = index_.find(key);
  return at == index_.end() ? nullptr : &entries_[at->second].value;
}

status Metadata::error(Code code, const std::string& message) const {
  return source_.empty() ? status(code, message) : in_file(source_, {code, message});
}

status Metadata::missing(std::string_view key, std::string_view expected) const {
  return error(Code::not_found, "key " + quote(key) + " is missing; expected " + std::string(expected));
}

status Metadata::mistyped(std::string_view key, const MetaValue& value, std::string_view expected) const {
  return error(Code::malformed,
               "key " + quote(key) + " is " + described(value) + "; expected " + std::string(expected));
}

result<std::int64_t> Metadata::get_int(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kInteger);
  if (const auto* v = std::get_if<std::int64_t>(value)) return *v;
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  if (const auto* v = std::get_if<std::uint64_t>(value); v != nullptr && *v <= kLargest)
    return static_cast<std::int64_t>(*v);
  return mistyped(key, *value, std::holds_alternative<std::uint64_t>(*value) ? "an integer below 2^63" : kInteger);
}

result<double> Metadata::get_float(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kFloat);
  if (const auto* v = std::get_if<double>(value)) return *v;
  if (const auto* v = std::get_if<std::int64_t>(value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<std::uint64_t>(value)) return static_cast<double>(*v);
  return mistyped(key, *value, kFloat);
}

result<bool> Metadata::get_bool(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kBool);
  if (const auto* v = std::get_if<bool>(value)) return *v;
  return mistyped(key, *value, kBool);
}

result<std::string_view> Metadata::get_string(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kString);
  if (const auto* v = std::get_if<std::string_view>(value)) return *v;
  return mistyped(key, *value, kString);
}

result<std::int64_t> Metadata::get_int(std::string_view key, std::int64_t fallback) const {
  return has(key) ? get_int(key) : fallback;
}
result<double> Metadata::get_float(std::string_view key, double fallback) const {
  return has(key) ? get_float(key) : fallback;
}
result<bool> Metadata::get_bool(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(key) : fallback;
}
result<std::string_view> Metadata::get_string(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : fallback;
}

result<std::span<const std::int64_t>> Metadata::get_ints(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kInts);
  if (const auto* v = std::get_if<std::vector<std::int64_t>>(value)) return std::span(*v);
  if (is_empty_array(*value)) return std::span<const std::int64_t>();
  return mistyped(key, *value, kInts);
}

result<std::vector<double>> Metadata::get_floats(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kFloats);
  if (const auto* v = std::get_if<std::vector<double>>(value)) return *v;
  if (const auto* v = std::get_if<std::vector<std::int64_t>>(value)) return std::vector<double>(v->begin(), v->end());
  if (is_empty_array(*value)) return std::vector<double>();
  return mistyped(key, *value, kFloats);
}

result<std::span<const std::string_view>> Metadata::get_strings(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return missing(key, kStrings);
  if (const auto* v = std::get_if<std::vector<std::string_view>>(value)) return std::span(*v);
  if (is_empty_array(*value)) return std::span<const std::string_view>();
  return mistyped(key, *value, kStrings);
}

}  // namespace fourfold
