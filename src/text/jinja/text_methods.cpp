// Methods of text, as Python's str has them.
#include "text/jinja/text_methods.hpp"

#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/format.hpp"
#include "text/jinja/methods.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

using Int = std::int64_t;
constexpr auto kNone = std::string_view::npos;

const std::string& bytes(const Value& self) { return self.text()->bytes; }

template <std::string (*map)(std::string_view)>
Value mapped(Evaluator& e, const Value& self, Args&) {
  e.budget().step(bytes(self).size() / 8);  // a table look-up per character
  return e.text(map(bytes(self)));
}

template <Side side>
Value stripped(Evaluator& e, const Value& self, Args& args) {
  if (!args.has(0) || args[0].is_none()) return e.text(std::string(strip(bytes(self), side)));
  return e.text(std::string(strip(bytes(self), text_argument(args, 0, ""), side)));
}

template <Justify side>
Value justify(Evaluator& e, const Value& self, Args& args) {
  return e.text(justified(bytes(self), integer_argument(args, 0, 0), text_argument(args, 1, " "), side));
}

// At least one character, and all of them pass.
template <bool (*passes)(std::uint32_t)>
Value all_pass(Evaluator&, const Value& self, Args&) {
  const auto all = characters(bytes(self));
  return !bytes(self).empty() && std::all_of(all.begin(), all.end(), [](auto c) { return passes(code_of(c)); });
}

bool is_alnum(std::uint32_t code) { return code != '_' && is_word(code); }

template <std::string (*map)(std::string_view)>
Value in_case(Evaluator&, const Value& self, Args&) {
  return bytes(self) == map(bytes(self)) && upper(bytes(self)) != lower(bytes(self));
}

// Letters after a letter in lower case, others in upper case.
std::string title(std::string_view s) {
  std::string out;
  bool inside = false;
  for (auto c : characters(s)) {
    out += inside ? lower(c) : capitalize(c);
    inside = is_alpha(code_of(c));
  }
  return out;
}

std::string swap_case(std::string_view s) {
  std::string out;
  for (auto c : characters(s)) out += lower(c) == c ? upper(c) : lower(c);
  return out;
}

// The part of the text between two optional bounds in code points, and its first byte.
std::pair<std::string_view, std::size_t> window(const Text& text, const Args& args, std::size_t i) {
  const Int n = static_cast<Int>(text.length());
  const auto bound = [&](std::size_t k, Int fallback) {
    if (!args.has(k) || args[k].is_none()) return fallback;
    const Int value = integer_argument(args, k, fallback);
    return value < 0 ? std::max<Int>(value + n, 0) : value;
  };
  const Int start = bound(i, 0), stop = std::min(bound(i + 1, n), n);
  if (start > n || start > stop) return {{}, kNone};
  const std::string_view all = text.bytes;
  const std::size_t begin = byte_of(all, static_cast<std::size_t>(start));
  return {all.substr(begin, byte_of(all.substr(begin), static_cast<std::size_t>(stop - start))), begin};
}

template <bool from_right, bool required>
Value found(Evaluator& e, const Value& self, Args& args) {
  const std::string sought = text_argument(args, 0, "");
  const auto [part, begin] = window(*self.text(), args, 1);
  e.budget().step(part.size() / 64);
  const auto at = begin == kNone ? kNone : from_right ? part.rfind(sought) : part.find(sought);
  if (at == kNone && required) throw Failure{"substring not found"};
  return at == kNone ? Int{-1} : static_cast<Int>(code_points(std::string_view(bytes(self)).substr(0, begin + at)));
}

Value count(Evaluator& e, const Value& self, Args& args) {
  const std::string sought = text_argument(args, 0, "");
  auto [part, begin] = window(*self.text(), args, 1);
  e.budget().step(part.size() / 64);
  if (begin == kNone) return Int{0};
  if (sought.empty()) return static_cast<Int>(code_points(part)) + 1;
  Int n = 0;
  for (std::size_t at = part.find(sought); at != kNone; at = part.find(sought, at + sought.size())) ++n;
  return n;
}

template <bool at_end>
Value has_affix(Evaluator&, const Value& self, Args& args) {
  const auto [part, begin] = window(*self.text(), args, 1);
  if (begin == kNone) return false;
  require_defined(args[0]);
  const Values one{args[0]};
  const bool tuple = args[0].list() && args[0].list()->is_tuple();
  for (const auto& affix : tuple ? args[0].list()->items : one) {
    if (!affix.text()) throw Failure{concat("a text or a tuple of texts expected, not '", type_name(affix), "'")};
    if (at_end ? part.ends_with(affix.text()->bytes) : part.starts_with(affix.text()->bytes)) return true;
  }
  return false;
}

template <bool at_end>
Value without_affix(Evaluator& e, const Value& self, Args& args) {
  const std::string affix = text_argument(args, 0, "");
  std::string_view text = bytes(self);
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return e.text(std::string(text));
}

Value texts(Evaluator& e, const std::vector<std::string>& parts) {
  Values items;
  for (const auto& part : parts) items.push_back(e.text(part));
  return e.list(std::move(items));
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator, Int most, bool from_right) {
  std::vector<std::string> out;
  while (most != 0) {
    const auto at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == kNone) break;
    out.emplace_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
    --most;
  }
  out.emplace_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

template <bool from_right>
Value split(Evaluator& e, const Value& self, Args& args) {
  const Int most = integer_argument(args, 1, -1);
  e.budget().step(bytes(self).size() / 8);
  if (!args.has(0) || args[0].is_none()) return texts(e, split_on_space(bytes(self), most, from_right));
  const std::string separator = text_argument(args, 0, "");
  if (separator.empty()) throw Failure{"split() with an empty separator"};
  return texts(e, split_at(bytes(self), separator, most, from_right));
}

template <bool from_right>
Value partition(Evaluator& e, const Value& self, Args& args) {
  const std::string separator = text_argument(args, 0, "");
  if (separator.empty()) throw Failure{"partition() with an empty separator"};
  const auto& text = bytes(self);
  const auto at = from_right ? text.rfind(separator) : text.find(separator);
  Values parts;
  if (at == kNone) {
    parts = {e.text(""), e.text(""), e.text("")};
    parts[from_right ? 2 : 0] = self;
  } else {
    parts = {e.text(text.substr(0, at)), e.text(separator), e.text(text.substr(at + separator.size()))};
  }
  return e.list(std::move(parts), List::Style::tuple);
}

Value join(Evaluator& e, const Value& self, Args& args) {
  require_defined(args[0]);
  const auto items = e.iterate(args[0]);
  std::string out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const auto& item = items->items[i];
    if (!item.text()) throw Failure{concat("join() expects texts, not '", type_name(item), "'")};
    if (i > 0) append(out, bytes(self));
    append(out, item.text()->bytes);
    e.budget().step((bytes(self).size() + item.text()->bytes.size()) / 64);
  }
  return e.text(std::move(out));
}

Value lines(Evaluator& e, const Value& self, Args& args) {
  Values items;
  for (std::string_view rest = bytes(self); !rest.empty();)
    items.push_back(e.text(std::string(take_line(rest, flag_argument(args, 0, false)))));
  return e.list(std::move(items));
}

Value replace(Evaluator& e, const Value& self, Args& args) {
  return e.text(
      replaced(bytes(self), text_argument(args, 0, ""), text_argument(args, 1, ""), integer_argument(args, 2, -1)));
}

Value zero_fill(Evaluator& e, const Value& self, Args& args) {
  const auto& text = bytes(self);
  const std::size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const Int width = integer_argument(args, 0, 0) - static_cast<Int>(sign);
  return e.text(text.substr(0, sign) + justified(text.substr(sign), width, "0", Justify::right));
}

Value expand_tabs(Evaluator& e, const Value& self, Args& args) {
  const Int size = std::clamp<Int>(integer_argument(args, 0, 8), 0, 1024);
  std::string out;
  Int column = 0;
  for (auto c : characters(bytes(self))) {
    if (c == "\t") {
      const Int fill = size > 0 ? size - column % size : 0;
      append(out, std::string(static_cast<std::size_t>(fill), ' '));
      column += fill;
    } else {
      append(out, c);
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return e.text(std::move(out));
}

const Builtin kMethods[] = {
    {"capitalize", mapped<capitalize>, ""},
    {"casefold", mapped<lower>, ""},
    {"center", justify<Justify::center>, "width fillchar?"},
    {"count", count, "sub start? end?"},
    {"endswith", has_affix<true>, "suffix start? end?"},
    {"expandtabs", expand_tabs, "tabsize?"},
    {"find", found<false, false>, "sub start? end?"},
    {"format",
     [](Evaluator& e, const Value& v, Args& args) { return e.text(format_braces(e.budget(), bytes(v), args)); }, "*"},
    {"index", found<false, true>, "sub start? end?"},
    {"isalnum", all_pass<is_alnum>, ""},
    {"isalpha", all_pass<is_alpha>, ""},
    {"isdecimal", all_pass<is_digit>, ""},
    {"isdigit", all_pass<is_digit>, ""},
    {"islower", in_case<lower>, ""},
    {"isnumeric", all_pass<is_digit>, ""},
    {"isspace", all_pass<is_space>, ""},
    {"istitle", in_case<title>, ""},
    {"isupper", in_case<upper>, ""},
    {"join", join, "iterable"},
    {"ljust", justify<Justify::left>, "width fillchar?"},
    {"lower", mapped<lower>, ""},
    {"lstrip", stripped<Side::left>, "chars?"},
    {"partition", partition<false>, "sep"},
    {"removeprefix", without_affix<false>, "prefix"},
    {"removesuffix", without_affix<true>, "suffix"},
    {"replace", replace, "old new count?"},
    {"rfind", found<true, false>, "sub start? end?"},
    {"rindex", found<true, true>, "sub start? end?"},
    {"rjust", justify<Justify::right>, "width fillchar?"},
    {"rpartition", partition<true>, "sep"},
    {"rsplit", split<true>, "sep? maxsplit?"},
    {"rstrip", stripped<Side::right>, "chars?"},
    {"split", split<false>, "sep? maxsplit?"},
    {"splitlines", lines, "keepends?"},
    {"startswith", has_affix<false>, "prefix start? end?"},
    {"strip", stripped<Side::both>, "chars?"},
    {"swapcase", mapped<swap_case>, ""},
    {"title", mapped<title>, ""},
    {"upper", mapped<upper>, ""},
    {"zfill", zero_fill, "width"},
};

}  // namespace

std::span<const Builtin> text_methods() { return kMethods; }

std::string justified(const std::string& text, std::int64_t width, std::string_view fill, Justify side) {
  if (code_points(fill) != 1) throw Failure{"the fill must be one character"};
  const auto length = static_cast<Int>(code_points(text));
  if (width <= length) return text;
  const Int missing = width - length;
  require_room(text.size(), static_cast<std::size_t>(missing));
  Int left = side == Justify::right ? missing : 0;
  if (side == Justify::center) left = missing / 2 + (missing & width & 1);
  std::string out;
  for (Int i = 0; i < left; ++i) append(out, fill);
  append(out, text);
  for (Int i = left; i < missing; ++i) append(out, fill);
  return out;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t count) {
  std::string out;
  const auto add = [&](std::string_view piece) { append(out, piece); };
  if (from.empty()) {
    for (auto c : characters(text)) {
      if (count-- != 0)
        add(to);
      else
        ++count;
      add(c);
    }
    if (count != 0) add(to);
    return out;
  }
  for (; count != 0; --count) {
    const auto at = text.find(from);
    if (at == kNone) break;
    add(text.substr(0, at));
    add(to);
    text.remove_prefix(at + from.size());
  }
  add(text);
  return out;
}

std::vector<std::string> split_on_space(std::string_view text, std::int64_t most, bool from_right) {
  std::vector<std::string> out;
  const Side near = from_right ? Side::right : Side::left;
  for (text = strip(text, near); !text.empty(); text = strip(text, near), --most) {
    if (most == 0) {
      out.emplace_back(text);
      break;
    }
    std::size_t length = 0;
    const auto all = std::string_view(text);
    if (from_right) {
      std::size_t begin = all.size();
      while (begin > 0) {
        const std::size_t previous = last_character(all.substr(0, begin));
        if (is_space(code_of(all.substr(previous, begin - previous)))) break;
        begin = previous;
      }
      length = all.size() - begin;
    } else {
      while (length < all.size()) {
        const std::size_t width = byte_of(all.substr(length), 1);
        if (is_space(code_of(all.substr(length, width)))) break;
        length += width;
      }
    }
    out.emplace_back(from_right ? all.substr(all.size() - length) : all.substr(0, length));
    text = from_right ? all.substr(0, all.size() - length) : all.substr(length);
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace fourfold::jinja
