#include "text/jinja/lexer.hpp"

#include <algorithm>
#include <array>

#include "text/jinja/strings.hpp"
#include "text/utf8.hpp"

namespace fourfold::jinja {
namespace {

using Kind = Token::Kind;

// One kind of line end, and none at the end of the template.
std::string normalise_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }
bool is_name_part(char c) { return is_name_start(c) || is_ascii_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise_lines(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) root();
    add(Kind::end, "end of template");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw Failure{message, Code::malformed, line_}; }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  // Moves over n bytes, which may hold newlines.
  void advance(std::size_t n) {
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(n), '\n'));
    if (n > 0) line_starts_ = rest_[n - 1] == '\n';
    rest_.remove_prefix(n);
  }

  void skip_space() { advance(rest_.size() - strip(rest_, Side::left).size()); }

  // The text before a tag, less what the tag's sign and lstrip_blocks take from its end.
  std::string_view before_tag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, Side::right);
    if (sign == '+' || is_variable) return text;
    const auto newline = text.rfind('\n');
    const std::size_t begin = newline == text.npos ? 0 : newline + 1;
    const bool blank = strip(text.substr(begin), Side::left).empty();
    return blank && (begin > 0 || line_starts_) ? text.substr(0, begin) : text;
  }

  static char sign_of(std::string_view after) {
    return !after.empty() && (after[0] == '-' || after[0] == '+') ? after[0] : ' ';
  }

  void data(std::string_view text) {
    if (!text.empty()) add(Kind::data, std::string(text));
  }

  // Data up to the next tag, then the tag.
  void root() {
    std::size_t at = 0;
    for (;; ++at) {
      at = rest_.find('{', at);
      if (at == rest_.npos || at + 1 >= rest_.size()) {
        data(rest_);
        return advance(rest_.size());
      }
      if (rest_[at + 1] == '{' || rest_[at + 1] == '%' || rest_[at + 1] == '#') break;
    }
    const char type = rest_[at + 1];
    const char sign = sign_of(rest_.substr(at + 2));
    data(before_tag(rest_.substr(0, at), sign, type == '{'));
    advance(at);
    if (type == '%' && raw_block()) return;
    const std::size_t opening = sign == ' ' ? 2 : 3;
    if (type == '#') return comment(opening);
    add(type == '{' ? Kind::variable_begin : Kind::block_begin, type == '{' ? "{{" : "{%");
    advance(opening);
    tag(type);
  }

  void comment(std::size_t opening) {
    const auto end = rest_.find("#}", opening);
    if (end == rest_.npos) fail("a comment is not closed: '#}' expected");
    const char before = end > opening ? rest_[end - 1] : ' ';
    advance(end + 2);
    after_block(before);
  }

  // What follows a block's end: `-` strips white space, `+` keeps all, else one newline goes.
  void after_block(char sign) {
    if (sign == '-') return skip_space();
    if (sign != '+' && rest_.starts_with('\n')) advance(1);
  }

  // Length of `{% name %}` at the start of s, or 0; sets the signs within its delimiters.
  static std::size_t bare_tag(std::string_view s, std::string_view name, char& opening, char& closing) {
    auto rest = s.substr(2);
    opening = sign_of(rest);
    if (opening != ' ') rest.remove_prefix(1);
    rest = strip(rest, Side::left);
    if (!rest.starts_with(name)) return 0;
    rest = strip(rest.substr(name.size()), Side::left);
    closing = sign_of(rest);
    if (closing != ' ') rest.remove_prefix(1);
    if (!rest.starts_with("%}")) return 0;
    return s.size() - rest.size() + 2;
  }

  // {% raw %} ... {% endraw %}, if it begins here.
  bool raw_block() {
    char opening = ' ', closing = ' ';
    const std::size_t begin = bare_tag(rest_, "raw", opening, closing);
    if (begin == 0 || closing == '+') return false;
    advance(begin);
    if (closing == '-') skip_space();
    for (std::size_t at = rest_.find("{%"); at != rest_.npos; at = rest_.find("{%", at + 1)) {
      const std::size_t length = bare_tag(rest_.substr(at), "endraw", opening, closing);
      if (length == 0) continue;
      data(before_tag(rest_.substr(0, at), opening, false));
      advance(at + length);
      after_block(closing);
      return true;
    }
    fail("a raw block is not closed: '{% endraw %}' expected");
  }

  // Tokens up to the end of a tag; end delimiters do not count within brackets.
  void tag(char type) {
    const std::string_view closing = type == '{' ? "}}" : "%}";
    std::string open;
    for (;;) {
      skip_space();
      if (rest_.empty()) return;
      const char sign = type == '{' && rest_[0] == '+' ? ' ' : sign_of(rest_);
      if (open.empty() && rest_.substr(sign == ' ' ? 0 : 1).starts_with(closing)) {
        add(type == '{' ? Kind::variable_end : Kind::block_end, std::string(closing));
        advance(sign == ' ' ? 2 : 3);
        if (type == '%') return after_block(sign);
        if (sign == '-') skip_space();
        return;
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = rest_[0];
    if (is_ascii_digit(c)) return number();
    if (is_name_start(c)) {
      std::size_t n = 1;
      while (n < rest_.size() && is_name_part(rest_[n])) ++n;
      return take(Kind::name, n);
    }
    if (c == '"' || c == '\'') return string(c);
    static constexpr std::array<std::string_view, 26> kSymbols = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                  "*",  "%",  "~",  "(",  ")",  "[",  "]", "{", "}",
                                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* symbol = std::find_if(kSymbols.begin(), kSymbols.end(), [&](auto s) { return rest_.starts_with(s); });
    if (symbol == kSymbols.end())
      fail(concat("unexpected character '", rest_.substr(0, first_character(rest_).length), "'"));
    balance(*symbol, open);
    take(Kind::symbol, symbol->size());
  }

  void balance(std::string_view symbol, std::string& open) const {
    if (symbol == "(" || symbol == "[" || symbol == "{") {
      open += symbol == "(" ? ')' : symbol == "[" ? ']' : '}';
    } else if (symbol == ")" || symbol == "]" || symbol == "}") {
      if (open.empty()) fail(concat("unexpected '", symbol, "'"));
      if (open.back() != symbol[0])
        fail(concat("unexpected '", symbol, "', '", std::string(1, open.back()), "' expected"));
      open.pop_back();
    }
  }

  void take(Kind kind, std::size_t n) {
    add(kind, std::string(rest_.substr(0, n)));
    advance(n);
  }

  // Digits with single underscores between them.
  std::size_t digits(std::size_t i) const {
    if (i >= rest_.size() || !is_ascii_digit(rest_[i])) return i;
    while (i < rest_.size() &&
           (is_ascii_digit(rest_[i]) || (rest_[i] == '_' && i + 1 < rest_.size() && is_ascii_digit(rest_[i + 1]))))
      ++i;
    return i;
  }

  void number() {
    if (rest_[0] == '0' && rest_.size() > 2 && std::string_view("xXoObB").find(rest_[1]) != std::string_view::npos) {
      std::size_t n = 2;
      while (n < rest_.size() && (is_name_part(rest_[n]) && !(rest_[n] & 0x80))) ++n;
      return take(Kind::integer, n);
    }
    const std::size_t whole = digits(0);
    std::size_t n = whole;
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == Kind::symbol && tokens_.back().text == ".";
    if (!after_dot) {
      if (n < rest_.size() && rest_[n] == '.' && digits(n + 1) > n + 1) n = digits(n + 1);
      if (n < rest_.size() && (rest_[n] == 'e' || rest_[n] == 'E')) {
        const std::size_t sign = n + 1 < rest_.size() && (rest_[n + 1] == '+' || rest_[n + 1] == '-') ? 1 : 0;
        const std::size_t end = digits(n + 1 + sign);
        if (end > n + 1 + sign) n = end;
      }
    }
    take(n == whole ? Kind::integer : Kind::floating, n);
  }

  void string(char quote) {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) fail(concat("a string is not closed: ", std::string(1, quote), " expected"));
    add(Kind::string, unescape(rest_.substr(1, end - 1)));
    advance(end + 1);
  }

  std::string unescape(std::string_view s) const {
    std::string out;
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\') {
        out += s[i];
        continue;
      }
      static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      const char c = s[++i];
      if (const auto at = kFrom.find(c); at != kFrom.npos) {
        out += kTo[at];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code(out, s.substr(i + 1, length), length, 16);
        i += length;
      } else if (c >= '0' && c <= '7') {
        std::size_t length = 1;
        while (length < 3 && i + length < s.size() && s[i + length] >= '0' && s[i + length] <= '7') ++length;
        append_code(out, s.substr(i, length), length, 8);
        i += length - 1;
      } else if (c == 'N') {
        fail("a named character '\\N{...}' in a string: write '\\uXXXX'");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append_code(std::string& out, std::string_view digits, std::size_t length, std::uint32_t base) const {
    std::uint32_t code = 0;
    bool good = digits.size() == length;
    for (char c : digits) {
      const std::uint32_t d = is_ascii_digit(c)      ? static_cast<std::uint32_t>(c - '0')
                              : c >= 'a' && c <= 'f' ? static_cast<std::uint32_t>(c - 'a' + 10)
                              : c >= 'A' && c <= 'F' ? static_cast<std::uint32_t>(c - 'A' + 10)
                                                     : base;
      good = good && d < base && code < 0x1000000;
      code = code * base + d;
    }
    if (!good || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      fail(concat("'", digits, "' in a string's escape is not a character's code"));
    append_utf8(out, code);
  }

  const std::string source_;
  std::string_view rest_;
  std::vector<Token> tokens_;
  int line_ = 1;
  bool line_starts_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (const auto valid = valid_prefix(source); valid != source.size())
    throw Failure{
        concat("not UTF-8 at byte ", valid), Code::malformed,
        1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(valid), '\n'))};
  return Lexer(source).run();
}

}  // namespace fourfold::jinja
