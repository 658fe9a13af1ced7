// Metadata: what a model file says about itself, as an ordered list of keys with typed values.
//
// Text is held as views: of the GGUF header kept in memory, or of the strings of a JSON file. A Metadata owns (shares)
// what its views point into, so they live as long as any copy of it. Integers keep their sign, floats are doubles,
// arrays of booleans are arrays of the integers 0 and 1.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace fourfold {

using MetaValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string_view>>;

// "string", "array of numbers": for listings and messages.
std::string_view type_of(const MetaValue& value);

class Metadata {
 public:
  struct Entry {
    std::string key;
    MetaValue value;
  };

  Metadata() = default;
  // `source`: the file's base name, put in front of every message; `backing`: what the views point into.
  Metadata(std::string source, std::shared_ptr<const void> backing)
      : source_(std::move(source)), backing_(std::move(backing)) {}

  // False, and nothing added, if the key is already there.
  bool add(std::string_view key, MetaValue value);

  std::span<const Entry> entries() const { return entries_; }  // in file order
  const MetaValue* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Without a fallback a missing key is not_found; a value of another type is malformed with or without one.
  // Every array getter accepts an empty array of any type.
  result<std::int64_t> get_int(std::string_view key) const;
  result<double> get_float(std::string_view key) const;  // an integer counts as a float
  result<bool> get_bool(std::string_view key) const;
  result<std::string_view> get_string(std::string_view key) const;
  result<std::int64_t> get_int(std::string_view key, std::int64_t fallback) const;
  result<double> get_float(std::string_view key, double fallback) const;
  result<bool> get_bool(std::string_view key, bool fallback) const;
  result<std::string_view> get_string(std::string_view key, std::string_view fallback) const;
  result<std::span<const std::int64_t>> get_ints(std::string_view key) const;
  result<std::vector<double>> get_floats(std::string_view key) const;  // integers count as floats
  result<std::span<const std::string_view>> get_strings(std::string_view key) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };

  status missing(std::string_view key, std::string_view expected) const;
  status mistyped(std::string_view key, const MetaValue& value, std::string_view expected) const;
  status error(Code code, const std::string& message) const;

  std::string source_;
  std::shared_ptr<const void> backing_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
};

// Flattens a JSON object (config.json): {"rope_scaling": {"factor": 8}} has the key "rope_scaling.factor". A null means
// absent; an array of scalars of one kind becomes an array, any other array its JSON text under the same key. Accepts
// bare NaN, Infinity and -Infinity, and {"__float__": "NaN"}, as some writers put them. Nesting is limited to 64
// levels.
result<Metadata> metadata_from_json(std::string_view text, std::string source = {});

}  // namespace fourfold
