// GgufWriter: the bytes of a GGUF file, right or wrong on purpose.
//
//   GgufWriter().string("general.architecture", "llama").tensor("w", {2, 3}, kF32, data).bytes()
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fourfold::test {

// The number as it lies in a little-endian file.
template <class T>
std::string raw(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}
inline std::string raw_string(std::string_view text) { return raw<std::uint64_t>(text.size()) + std::string(text); }

// GGUF's value types and a few tensor types.
enum GgufValue : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32Value,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
inline constexpr std::uint32_t kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ8_0 = 8, kIq2Xxs = 16;

class GgufWriter {
 public:
  GgufWriter& version(std::uint32_t version) { return set(version_, version); }
  GgufWriter& alignment(std::uint32_t alignment) {
    return set<std::size_t>(alignment_, alignment).u32("general.alignment", alignment);
  }
  // Overrides the counts in the preamble.
  GgufWriter& counts(std::uint64_t tensors, std::uint64_t keys) {
    fixed_counts_ = true;
    return set(tensor_count_, tensors).set(key_count_, keys);
  }

  // Keys; value() writes any type number and payload.
  GgufWriter& value(std::string_view key, std::uint32_t type, std::string_view payload) {
    keys_ += raw_string(key) + raw(type) + std::string(payload);
    key_count_ += fixed_counts_ ? 0 : 1;
    return *this;
  }
  GgufWriter& u32(std::string_view key, std::uint32_t v) { return value(key, kU32, raw(v)); }
  GgufWriter& i32(std::string_view key, std::int32_t v) { return value(key, kI32, raw(v)); }
  GgufWriter& u16(std::string_view key, std::uint16_t v) { return value(key, kU16, raw(v)); }
  GgufWriter& u64(std::string_view key, std::uint64_t v) { return value(key, kU64, raw(v)); }
  GgufWriter& f32(std::string_view key, float v) { return value(key, kF32Value, raw(v)); }
  GgufWriter& boolean(std::string_view key, bool v) { return value(key, kBool, raw(std::uint8_t{v})); }
  GgufWriter& string(std::string_view key, std::string_view v) { return value(key, kString, raw_string(v)); }
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& values) {
    std::string payload = raw(std::uint32_t{kString}) + raw<std::uint64_t>(values.size());
    for (const auto& text : values) payload += raw_string(text);
    return value(key, kArray, payload);
  }
  template <class T>
  GgufWriter& array(std::string_view key, std::uint32_t type, const std::vector<T>& values) {
    std::string payload = raw(type) + raw<std::uint64_t>(values.size());
    for (const T v : values) payload += raw(v);
    return value(key, kArray, payload);
  }

  // A tensor with its data, aligned after the one before. shape: outermost first.
  GgufWriter& tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t type,
                     std::string_view data) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    row(name, {shape.rbegin(), shape.rend()}, type, data_.size());
    data_ += data;
    return *this;
  }
  // Only a row of the tensor table. dims: innermost first, as they stand in the file.
  GgufWriter& row(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                  std::uint64_t offset) {
    tensors_ += raw_string(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) tensors_ += raw(d);
    tensors_ += raw(type) + raw(offset);
    tensor_count_ += fixed_counts_ ? 0 : 1;
    return *this;
  }
  GgufWriter& data(std::string_view bytes) {
    data_ += bytes;
    return *this;
  }

  std::string header() const {
    return "GGUF" + raw(version_) + raw(tensor_count_) + raw(key_count_) + keys_ + tensors_;
  }
  std::string bytes() const {
    std::string out = header();
    if (!data_.empty()) out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return out + data_;
  }

 private:
  template <class T>
  GgufWriter& set(T& member, T to) {
    member = to;
    return *this;
  }

  std::uint32_t version_ = 3;
  std::size_t alignment_ = 32;
  bool fixed_counts_ = false;
  std::uint64_t tensor_count_ = 0, key_count_ = 0;
  std::string keys_, tensors_, data_;
};

}  // namespace fourfold::test
