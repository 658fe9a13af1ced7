// UTF-8 as bytes arrive: tokens stand for bytes, so a character may be split over several of them.
//
// An ill-formed sequence is cut into maximal subparts (The Unicode Standard, section 3.9, table 3-7 and U+FFFD
// substitution): the longest start of a well-formed sequence, or one byte. Each becomes U+FFFD once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold {

struct Utf8Unit {
  std::uint32_t code = 0;    // the character if valid
  std::uint32_t length = 0;  // bytes taken; at least 1
  bool valid = false;
  bool cut_short = false;  // not valid, but a well-formed sequence begins here and the text ends within it
};

// The first character of `text`, or its first maximal ill-formed subpart. `text` is not empty.
Utf8Unit first_character(std::string_view text);

// Bytes of `text` before its first ill-formed sequence.
std::size_t valid_prefix(std::string_view text);

void append_utf8(std::string& out, std::uint32_t code);

// Joins pieces of bytes into valid UTF-8; the end of a piece that may still become a character waits for the next one.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string flush();  // what still waited, as U+FFFD

 private:
  std::string held_;  // at most 3 bytes
};

}  // namespace fourfold
