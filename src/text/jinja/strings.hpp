// Strings as Python has them: code points, Unicode white space, simple case mappings.
//
// Every function takes valid UTF-8; a byte that is not counts as one character, so that nothing depends on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::jinja {

std::size_t code_points(std::string_view s);
std::size_t byte_of(std::string_view s, std::size_t index);  // where code point `index` begins; the size if beyond
std::vector<std::string_view> characters(std::string_view s);

bool is_space(std::uint32_t code);  // Python's str.isspace
bool is_alpha(std::uint32_t code);  // a letter
bool is_digit(std::uint32_t code);  // a decimal digit
bool is_word(std::uint32_t code);   // a letter, a number or an underscore
std::uint32_t code_of(std::string_view character);

enum class Side { left = 1, right = 2, both = 3 };
std::string_view strip(std::string_view s, Side side);                          // white space
std::string_view strip(std::string_view s, std::string_view set, Side side);    // the characters of a set

std::string lower(std::string_view s);
std::string upper(std::string_view s);
std::string capitalize(std::string_view s);
std::string escape_html(std::string_view s);

// Python's str.splitlines: \n, \r, \r\n, \v, \f, \x1c-\x1e, U+0085, U+2028, U+2029.
std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends);

// Python's repr of a str.
std::string quoted(std::string_view s);

}  // namespace fourfold::jinja
