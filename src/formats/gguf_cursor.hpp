// GgufCursor: walks a GGUF header and cannot leave the file. A step beyond the bytes in memory, but inside the file,
// fails and remembers how many bytes it wanted.
#pragma once

#include <cstring>
#include <fourfold/status.hpp>
#include <limits>
#include <string>
#include <string_view>

#include "formats/gguf.hpp"
#include "formats/message.hpp"

namespace fourfold {

// What is being read, for messages: "key count", "value of key 'general.name'".
struct Where {
  std::string_view what;
  std::string_view name;
  std::string text() const {
    return name.empty() ? std::string(what) : std::string(what).append(" ").append(quote(name));
  }
};

inline status malformed_at(const Where& where, const std::string& problem) {
  return {Code::malformed, where.text() + ": " + problem};
}

class GgufCursor {
 public:
  explicit GgufCursor(const GgufHead& head) : head_(head) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return head_.file_size - position_; }
  std::uint64_t wanted() const { return wanted_; }

  // Succeeds if n more bytes are in memory.
  status need(std::uint64_t n, const Where& where) {
    if (n > left()) {
      const bool overflow = n > std::numeric_limits<std::uint64_t>::max() - position_;
      return malformed_at(where, "data ends at byte " + (overflow ? "2^64 or later" : grouped(position_ + n)) +
                                     ", the file at " + grouped(head_.file_size) + " (truncated?)");
    }
    if (n <= head_.size - position_) return {};
    wanted_ = position_ + n;
    return {Code::resource, where.text() + ": the header reaches beyond byte " + grouped(head_.size)};
  }

  template <class T>
  status number(T& out, const Where& where) {
    FOURFOLD_TRY(need(sizeof(T), where));
    std::memcpy(&out, take(sizeof(T)), sizeof(T));
    return {};
  }

  // A count of things that take at least `smallest` bytes each.
  status count(std::uint64_t& out, std::uint64_t smallest, const Where& where) {
    FOURFOLD_TRY(number(out, where));
    if (out <= left() / smallest) return {};
    return malformed_at(where, grouped(out) + " of at least " + grouped(smallest) + " bytes each do not fit into the " +
                                   grouped(left()) + " bytes left");
  }

  status string(std::string_view& out, const Where& where) {
    std::uint64_t length = 0;
    FOURFOLD_TRY(number(length, where));
    FOURFOLD_TRY(need(length, where));
    out = {reinterpret_cast<const char*>(take(length)), length};
    return {};
  }

  // The name of a key or a tensor: 1 to 65535 bytes of UTF-8 without control characters.
  status name(std::string_view& out, const Where& where) {
    std::uint64_t length = 0;
    FOURFOLD_TRY(number(length, where));
    if (length == 0 || length > kLongestName)
      return malformed_at(where, "its length is " + grouped(length) + "; expected 1 to " + grouped(kLongestName));
    FOURFOLD_TRY(need(length, where));
    out = {reinterpret_cast<const char*>(take(length)), length};
    if (!is_plain_name(out)) return malformed_at(where, quote(out) + " is not plain UTF-8 text");
    return {};
  }

  const std::byte* take(std::uint64_t n) {
    const std::byte* at = head_.bytes.get() + position_;
    position_ += n;
    return at;
  }

 private:
  static constexpr std::uint64_t kLongestName = 65535;

  const GgufHead& head_;
  std::uint64_t position_ = 0;
  std::uint64_t wanted_ = 0;
};

}  // namespace fourfold
