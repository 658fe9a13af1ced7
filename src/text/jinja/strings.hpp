// Strings as Python has them: code points, Unicode white space, simple case mappings.
//
// Every function takes valid UTF-8; a byte that is not counts as one character, so that nothing depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold::jinja {

std::size_t code_points(std::string_view s);
std::size_t byte_of(std::string_view s, std::size_t index);  // where code point `index` begins; the size if beyond

// The characters of a text, one after the other.
class Characters {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;
    Iterator() = default;
    explicit Iterator(std::string_view rest) : rest_(rest) {}
    std::string_view operator*() const { return rest_.substr(0, byte_of(rest_, 1)); }
    Iterator& operator++() {
      rest_.remove_prefix(byte_of(rest_, 1));
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return rest_.size() == other.rest_.size(); }

   private:
    std::string_view rest_;
  };

  explicit Characters(std::string_view s) : s_(s) {}
  Iterator begin() const { return Iterator(s_); }
  Iterator end() const { return Iterator(s_.substr(s_.size())); }

 private:
  std::string_view s_;
};
inline Characters characters(std::string_view s) { return Characters(s); }
std::size_t last_character(std::string_view s);  // where the last character begins; s is not empty

bool is_space(std::uint32_t code);  // Python's str.isspace
bool is_alpha(std::uint32_t code);  // a letter
bool is_digit(std::uint32_t code);  // a decimal digit
bool is_word(std::uint32_t code);   // a letter, a number or an underscore
std::uint32_t code_of(std::string_view character);

enum class Side { left = 1, right = 2, both = 3 };
std::string_view strip(std::string_view s, Side side);                        // white space
std::string_view strip(std::string_view s, std::string_view set, Side side);  // the characters of a set

std::string lower(std::string_view s);
std::string upper(std::string_view s);
std::string capitalize(std::string_view s);
// A decimal number, whatever the locale: one too large is infinite, one too small is 0.
std::optional<double> parse_double(std::string_view s);

std::string escape_html(std::string_view s);

// Takes the first line off a text that is not empty. Lines end as for Python's str.splitlines: \n, \r, \r\n, \v, \f,
// \x1c-\x1e, U+0085, U+2028, U+2029.
std::string_view take_line(std::string_view& rest, bool keep_end);

// Python's repr of a str.
std::string quoted(std::string_view s);

}  // namespace fourfold::jinja
