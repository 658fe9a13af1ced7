// Filters that make text.
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.hpp"
#include "text/jinja/format.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/strings.hpp"
#include "text/jinja/text_methods.hpp"
#include "text/utf8.hpp"

namespace fourfold::jinja {
namespace {

template <std::string (*map)(std::string_view)>
Value mapped(Evaluator& e, const Value& self, Args&) {
  const Printed text(self);
  e.budget().step(std::string_view(text).size() / 8);  // a table look-up per character
  return e.text(map(text));
}

// Each word's first character in upper case; words begin after white space, - ( { [ <.
std::string title_words(std::string_view s) {
  std::string out, word;
  const auto flush = [&] {
    const std::string_view w = word;
    const auto first = w.substr(0, byte_of(w, 1));
    out += upper(first) + lower(w.substr(first.size()));
    word.clear();
  };
  for (auto c : characters(s)) {
    if (is_space(code_of(c)) || std::string_view("-({[<").find(c[0]) != std::string_view::npos) {
      flush();
      out += c;
    } else {
      word += c;
    }
  }
  flush();
  return out;
}

Value escape(Evaluator& e, const Value& self, Args&) {
  if (self.text() && self.text()->safe) return self;
  return e.text(escape_html(Printed(self)), true);
}

Value indent(Evaluator& e, const Value& self, Args& args) {
  const bool by_text = args.has(0) && args[0].text();
  const auto width = by_text ? 0 : std::clamp<std::int64_t>(integer_argument(args, 0, 4), 0, 1 << 20);
  const std::string margin = by_text ? args[0].text()->bytes : std::string(static_cast<std::size_t>(width), ' ');
  const bool first = flag_argument(args, 1, false), blank = flag_argument(args, 2, false);
  require_defined(self);
  if (!self.text()) throw Failure{concat("indent expects a text, not '", type_name(self), "'")};
  const std::string source = self.text()->bytes + "\n";
  std::string out;
  bool is_first = true;
  for (std::string_view rest = source; !rest.empty();) {
    const auto line = take_line(rest, false);
    if (!is_first) append(out, "\n");
    if (is_first ? first : (blank || !line.empty())) append(out, margin);
    append(out, line);
    is_first = false;
  }
  return e.text(std::move(out));
}

Value center(Evaluator& e, const Value& self, Args& args) {
  return e.text(justified(to_text(self), integer_argument(args, 0, 80), " ", Justify::center));
}

Value replace(Evaluator& e, const Value& self, Args& args) {
  const auto count = args.has(2) && !args[2].is_none() ? integer_argument(args, 2, -1) : -1;
  return e.text(replaced(Printed(self), Printed(args[0]), Printed(args[1]), count));
}

Value trim(Evaluator& e, const Value& self, Args& args) {
  const Printed text(self);
  if (args.has(0) && !args[0].is_none())
    return e.text(std::string(strip(text, text_argument(args, 0, ""), Side::both)));
  return e.text(std::string(strip(text, Side::both)));
}

Value truncate(Evaluator& e, const Value& self, Args& args) {
  const std::string text = to_text(self), end = text_argument(args, 2, "...");
  const auto length = integer_argument(args, 0, 255), leeway = integer_argument(args, 3, 5);
  const auto end_length = static_cast<std::int64_t>(code_points(end));
  if (length < end_length || leeway < 0)
    throw Failure{"truncate() expects a length of at least its end's, and a leeway of at least 0"};
  if (static_cast<std::int64_t>(code_points(text)) - leeway <= length) return e.text(text);
  std::string cut = text.substr(0, byte_of(text, static_cast<std::size_t>(length - end_length)));
  if (!flag_argument(args, 1, false)) cut = cut.substr(0, std::min(cut.rfind(' '), cut.size()));
  return e.text(cut + end);
}

Value word_count(Evaluator&, const Value& self, Args&) {
  std::int64_t words = 0;
  bool inside = false;
  const Printed text(self);
  for (auto c : characters(text)) {
    const bool word = is_word(code_of(c));
    words += word && !inside;
    inside = word;
  }
  return words;
}

Value format(Evaluator& e, const Value& self, Args& args) {
  if (!args.positional.empty() && !args.named.empty())
    throw Failure{"format() takes positional or named values, not both"};
  Value values;
  if (args.named.empty()) {
    values = e.list(std::move(args.positional), List::Style::tuple);
  } else {
    Dict::Entries entries;
    for (auto& [name, value] : args.named) entries.emplace_back(e.text(name), std::move(value));
    values = make_dict(&e.budget(), std::move(entries));
  }
  return e.text(format_percent(e.budget(), to_text(self), values));
}

Value strip_tags(Evaluator& e, const Value& self, Args&) {
  std::string text = to_text(self), plain;
  for (std::size_t at; (at = text.find("<!--")) != text.npos;) {
    const auto end = text.find("-->", at);
    if (end == text.npos) break;
    text.erase(at, end + 3 - at);
    e.budget().step(text.size() / 64);
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto end = text[i] == '<' ? text.find('>', i) : text.npos;
    if (end == text.npos)
      plain += text[i];
    else
      i = end;
  }
  std::string out;
  for (const auto& word : split_on_space(plain, -1, false)) out += concat(out.empty() ? "" : " ", word);
  return e.text(std::move(out));
}

std::string percent_encoded(std::string_view s, bool query) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~";
  std::string out;
  for (const char& c : s) {
    if (kPlain.find(c) != kPlain.npos || (c == '/' && !query)) {
      append(out, {&c, 1});
    } else if (c == ' ' && query) {
      append(out, "+");
    } else {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      append(out, code);
    }
  }
  return out;
}

Value url_encode(Evaluator& e, const Value& self, Args&) {
  if (!self.dict() && !self.list()) return e.text(percent_encoded(Printed(self), false));
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    out +=
        concat(out.empty() ? "" : "&", percent_encoded(to_text(key), true), "=", percent_encoded(to_text(value), true));
  };
  if (self.dict()) {
    for (const auto& [key, value] : self.dict()->entries) add(key, value);
  } else {
    const auto items = e.iterate(self);
    for (const auto& item : items->items) {
      const auto pair = e.iterate(item);
      if (pair->items.size() != 2) throw Failure{"urlencode expects pairs of a key and a value"};
      add(pair->items[0], pair->items[1]);
    }
  }
  return e.text(std::move(out));
}

Value xml_attributes(Evaluator& e, const Value& self, Args& args) {
  if (!self.dict()) throw Failure{concat("xmlattr expects a dict, not '", type_name(self), "'")};
  std::string out;
  for (const auto& [key, value] : self.dict()->entries) {
    if (value.is_none() || value.is_undefined()) continue;
    const std::string name = to_text(key);
    if (name.find_first_of(" \t\n\r\f\v/>=") != name.npos)
      throw Failure{concat("invalid character in the attribute name ", quoted(name))};
    const bool safe = value.text() && value.text()->safe;
    const std::string quoted_value = safe ? value.text()->bytes : escape_html(to_text(value));
    out += concat(out.empty() ? "" : " ", escape_html(name), "=\"", quoted_value, "\"");
  }
  if (flag_argument(args, 0, true) && !out.empty()) out = concat(" ", out);
  return e.text(std::move(out));
}

// transformers' tojson: json.dumps, not HTML-safe, non-ASCII as it is.
Value to_json_filter(Evaluator& e, const Value& self, Args& args) {
  JsonStyle style;
  style.ascii_only = flag_argument(args, 0, false);
  if (args.has(1) && !args[1].is_none()) {
    const bool by_text = args[1].text() != nullptr;
    const auto width = by_text ? 0 : std::clamp<std::int64_t>(integer_argument(args, 1, 0), 0, 1000);
    style.indent = by_text ? args[1].text()->bytes : std::string(static_cast<std::size_t>(width), ' ');
    style.item_separator.resize(1);  // no blank at a line's end
  }
  if (args.has(2) && !args[2].is_none()) {
    const auto separators = e.iterate(args[2]);
    if (separators->items.size() != 2) throw Failure{"tojson expects two separators"};
    style.item_separator = to_text(separators->items[0]);
    style.key_separator = to_text(separators->items[1]);
  }
  style.sort_keys = flag_argument(args, 3, false);
  return e.text(to_json(self, style));
}

Value file_size(Evaluator& e, const Value& self, Args& args) {
  const bool binary = flag_argument(args, 0, false);
  if (!self.is_number()) throw Failure{concat("filesizeformat expects a number, not '", type_name(self), "'")};
  const double bytes = self.number(), base = binary ? 1024 : 1000;
  if (bytes == 1) return e.text("1 Byte");
  if (!(bytes >= base)) return e.text(format_percent(e.budget(), "%d Bytes", Value(bytes)));
  double unit = base;
  std::size_t i = 0;
  while (i < 7 && bytes >= unit * base) unit *= base, ++i;
  const std::string suffix = std::string(1, (binary ? "KMGTPEZY" : "kMGTPEZY")[i]) + (binary ? "iB" : "B");
  return e.text(format_percent(e.budget(), concat("%.1f ", suffix), Value(bytes / unit)));
}

const Builtin kFilters[] = {
    {"capitalize", mapped<capitalize>, ""},
    {"center", center, "width?"},
    {"e", escape, ""},
    {"escape", escape, ""},
    {"filesizeformat", file_size, "binary?"},
    {"forceescape", [](Evaluator& e, const Value& v, Args&) { return e.text(escape_html(Printed(v)), true); }, ""},
    {"format", format, "*"},
    {"indent", indent, "width? first? blank?"},
    {"lower", mapped<lower>, ""},
    {"replace", replace, "old new count?"},
    {"safe", [](Evaluator& e, const Value& v, Args&) { return e.text(to_text(v), true); }, ""},
    {"string", [](Evaluator& e, const Value& v, Args&) { return v.text() ? v : e.text(to_text(v)); }, ""},
    {"striptags", strip_tags, ""},
    {"title", mapped<title_words>, ""},
    {"tojson", to_json_filter, "ensure_ascii? indent? separators? sort_keys?"},
    {"trim", trim, "chars?"},
    {"truncate", truncate, "length? killwords? end? leeway?"},
    {"upper", mapped<upper>, ""},
    {"urlencode", url_encode, ""},
    {"wordcount", word_count, ""},
    {"xmlattr", xml_attributes, "autospace?"},
};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace fourfold::jinja
