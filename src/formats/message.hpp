// Wording shared by all readers: how names, numbers and file names stand in an error message.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <string>
#include <string_view>

namespace fourfold {

// 'text' between quotes on one line: control characters and bytes that are not UTF-8 as \xNN, cut after 80 bytes.
std::string quote(std::string_view text);

// 1048608 -> "1 048 608".
std::string grouped(std::uint64_t n);

// Puts "name: " in front of an error's message; an ok status stays ok.
status in_file(std::string_view name, const status& error);

// The length in bytes of the UTF-8 character that starts at text[at], or 0 where no valid one starts.
std::size_t utf8_length(std::string_view text, std::size_t at);
bool is_utf8(std::string_view text);

// Whether a key or a tensor may be called this: at least one byte of UTF-8, no control characters.
bool is_plain_name(std::string_view name);

}  // namespace fourfold
