// Opening a GGUF model that may be split: every shard says its number, how many there are, and how many tensors all of
// them hold together (split.no, split.count, split.tensors.count).
#include <cstdio>
#include <unordered_set>

#include "formats/contents.hpp"
#include "formats/gguf.hpp"
#include "formats/message.hpp"

namespace fourfold {
namespace {

std::string suffix(std::int64_t number, std::int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05lld-of-%05lld.gguf", static_cast<long long>(number + 1),
                static_cast<long long>(count));
  return text;
}

std::string shard_text(std::int64_t number, std::int64_t count) {
  return "shard " + std::to_string(number + 1) + " of " + std::to_string(count);
}

// Checks that a shard's metadata calls it number `number` (from 0) of `count`.
status check_shard(const Metadata& metadata, const std::string& name, std::int64_t number, std::int64_t count) {
  const auto stored_number = metadata.get_int("split.no");
  if (!stored_number) return stored_number.error();
  const auto stored_count = metadata.get_int("split.count");
  if (!stored_count) return stored_count.error();
  if (*stored_number == number && *stored_count == count) return {};
  const std::string says = name + ": it says it is " + shard_text(*stored_number, *stored_count);
  return {Code::malformed, says + "; expected " + shard_text(number, count)};
}

// The part of `path` before "-00001-of-0000N.gguf".
result<std::string> shard_prefix(const File& first, std::int64_t count) {
  const std::string expected = suffix(0, count);
  const std::string& path = first.path();
  if (path.size() >= expected.size() && path.compare(path.size() - expected.size(), expected.size(), expected) == 0)
    return path.substr(0, path.size() - expected.size());
  return status(Code::invalid_argument, first.name() + ": it is one of " + std::to_string(count) +
                                            " shards, so its name should end in " + quote(expected));
}

status add_shard(Contents& all, std::int64_t number, std::int64_t count, const std::string& path,
                 std::unordered_set<std::string>& names) {
  auto file = File::open(path);
  if (!file && file.error().code() == Code::not_found)
    return {Code::not_found, shard_text(number, count) + " is missing: " + quote(path)};
  if (!file) return file.error();
  auto gguf = read_gguf(*file);
  if (!gguf) return gguf.error();
  FOURFOLD_TRY(check_shard(gguf->metadata, file->name(), number, count));
  for (TensorInfo& tensor : gguf->tensors) {
    if (!names.insert(tensor.name).second)
      return in_file(file->name(), {Code::malformed, "tensor " + quote(tensor.name) + " is in an earlier shard too"});
    tensor.file = static_cast<int>(number);
    all.tensors.push_back(std::move(tensor));
  }
  all.files.push_back(std::move(*file));
  return {};
}

status add_other_shards(Contents& all, std::int64_t count) {
  const File& first = all.files.front();
  const std::string name = first.name();
  const auto number = all.metadata.get_int("split.no");
  if (!number) return number.error();
  if (*number != 0) {
    return {Code::invalid_argument,
            name + ": it is " + shard_text(*number, count) + "; open the first, named *" + suffix(0, count)};
  }
  const auto prefix = shard_prefix(first, count);
  if (!prefix) return prefix.error();
  std::unordered_set<std::string> names;
  for (const TensorInfo& tensor : all.tensors) names.insert(tensor.name);
  for (std::int64_t i = 1; i < count; ++i) FOURFOLD_TRY(add_shard(all, i, count, *prefix + suffix(i, count), names));
  const auto expected = all.metadata.get_int("split.tensors.count", static_cast<std::int64_t>(all.tensors.size()));
  if (!expected) return expected.error();
  if (*expected == static_cast<std::int64_t>(all.tensors.size())) return {};
  return {Code::malformed, name + ": key 'split.tensors.count' is " + std::to_string(*expected) + "; all shards hold " +
                               std::to_string(all.tensors.size()) + " tensors"};
}

}  // namespace

result<Contents> open_gguf(const std::string& path) {
  auto file = File::open(path);
  if (!file) return file.error();
  auto gguf = read_gguf(*file);
  if (!gguf) return gguf.error();
  Contents all;
  all.files.push_back(std::move(*file));
  all.tensors = std::move(gguf->tensors);
  all.metadata = std::move(gguf->metadata);
  const auto count = all.metadata.get_int("split.count", 1);
  if (!count) return count.error();
  if (*count < 1) {
    return in_file(all.files[0].name(),
                   {Code::malformed, "key 'split.count' is " + std::to_string(*count) + "; expected 1 or more"});
  }
  if (*count > 1) FOURFOLD_TRY(add_other_shards(all, *count));
  return all;
}

}  // namespace fourfold
