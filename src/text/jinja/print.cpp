#include "text/jinja/print.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/strings.hpp"

namespace fourfold::jinja {
namespace {

// Text that may not outgrow what a render may hold.
class Sink {
 public:
  Sink& operator<<(std::string_view s) {
    append(out_, s);
    return *this;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void write_repr(Sink& out, const Value& v);

void write_items(Sink& out, const Values& items) {
  std::string_view separator;
  for (const auto& item : items) {
    out << separator;
    write_repr(out, item);
    separator = ", ";
  }
}

void write_list(Sink& out, const List& list) {
  switch (list.style) {
    case List::Style::tuple:
    case List::Style::group:
      out << "(";
      write_items(out, list.items);
      out << (list.items.size() == 1 ? ",)" : ")");
      return;
    case List::Style::list:
      out << "[";
      write_items(out, list.items);
      out << "]";
      return;
    case List::Style::iterator:
      out << "<generator object>";
      return;
    case List::Style::range: {
      const auto& items = list.items;
      const auto at = [&](std::size_t i) { return *items[i].integer(); };
      const std::int64_t first = items.empty() ? 0 : at(0);
      const std::int64_t step = items.size() > 1 ? at(1) - first : 1;
      const std::int64_t end = items.empty() ? 0 : at(items.size() - 1) + step;
      out << "range(" << std::to_string(first) << ", " << std::to_string(end);
      if (step != 1) out << ", " << std::to_string(step);
      out << ")";
      return;
    }
    default:
      out << (list.style == List::Style::keys     ? "dict_keys(["
              : list.style == List::Style::values ? "dict_values(["
                                                  : "dict_items([");
      write_items(out, list.items);
      out << "])";
  }
}

void write_repr(Sink& out, const Value& v) {
  if (v.is_undefined()) {
    out << "Undefined";
  } else if (v.is_none()) {
    out << "None";
  } else if (const auto* b = v.get<bool>()) {
    out << (*b ? "True" : "False");
  } else if (const auto* i = v.get<std::int64_t>()) {
    out << std::to_string(*i);
  } else if (const auto* d = v.get<double>()) {
    out << repr(*d);
  } else if (v.text()) {
    if (v.text()->safe)
      out << "Markup(" << quoted(v.text()->bytes) << ")";
    else
      out << quoted(v.text()->bytes);
  } else if (v.list()) {
    write_list(out, *v.list());
  } else if (v.dict()) {
    std::string_view separator;
    out << "{";
    for (const auto& [key, value] : v.dict()->entries) {
      out << separator;
      write_repr(out, key);
      out << ": ";
      write_repr(out, value);
      separator = ", ";
    }
    out << "}";
  } else {
    out << v.object()->repr();
  }
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const Value& v) {
    if (v.is_none()) {
      out_ << "null";
    } else if (const auto* b = v.get<bool>()) {
      out_ << (*b ? "true" : "false");
    } else if (v.is_number()) {
      out_ << number(v);
    } else if (v.text()) {
      string(v.text()->bytes);
    } else if (v.list() && (v.list()->is_tuple() || v.list()->style == List::Style::list)) {
      list(v.list()->items);
    } else if (v.dict()) {
      dict(*v.dict());
    } else {
      throw Failure{concat("Object of type ", type_name(v), " is not JSON serializable")};
    }
  }

  std::string take() { return out_.take(); }

 private:
  static std::string number(const Value& v) {
    const auto* d = v.get<double>();
    if (!d) return std::to_string(*v.integer());
    if (std::isnan(*d)) return "NaN";
    return std::isinf(*d) ? (*d > 0 ? "Infinity" : "-Infinity") : repr(*d);
  }

  void unicode_escape(std::uint32_t code) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", code & 0xFFFFu);
    out_ << escape;
  }

  void string(std::string_view s) {
    out_ << "\"";
    for (auto character : characters(s)) {
      const std::uint32_t c = code_of(character);
      if (c == '"' || c == '\\') {
        out_ << "\\" << character;
      } else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') {
        out_ << (c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\b' ? "\\b" : "\\f");
      } else if (c < 0x20 || (style_.ascii_only && c >= 0x7F)) {
        if (c >= 0x10000) {
          unicode_escape(0xD800 + ((c - 0x10000) >> 10));
          unicode_escape(0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
          unicode_escape(c);
        }
      } else {
        out_ << character;
      }
    }
    out_ << "\"";
  }

  void line() {
    if (!style_.indent) return;
    out_ << "\n";
    for (int i = 0; i < level_; ++i) out_ << *style_.indent;
  }

  void list(const Values& items) {
    if (items.empty()) {
      out_ << "[]";
      return;
    }
    out_ << "[";
    ++level_;
    std::string_view separator;
    for (const auto& item : items) {
      out_ << separator;
      line();
      write(item);
      separator = style_.item_separator;
    }
    --level_;
    line();
    out_ << "]";
  }

  static std::string key_text(const Value& key) {
    if (key.text()) return key.text()->bytes;
    if (key.is_none()) return "null";
    if (const auto* b = key.get<bool>()) return *b ? "true" : "false";
    if (key.is_number()) return number(key);
    throw Failure{concat("keys must be str, int, float, bool or None, not ", type_name(key))};
  }

  void dict(const Dict& d) {
    if (d.entries.empty()) {
      out_ << "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> order_of_keys;
    for (const auto& entry : d.entries) order_of_keys.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(order_of_keys.begin(), order_of_keys.end(),
                       [](const auto* a, const auto* b) { return order(a->first, b->first) < 0; });
    out_ << "{";
    ++level_;
    std::string_view separator;
    for (const auto* entry : order_of_keys) {
      out_ << separator;
      line();
      string(key_text(entry->first));
      out_ << style_.key_separator;
      write(entry->second);
      separator = style_.item_separator;
    }
    --level_;
    line();
    out_ << "}";
  }

  const JsonStyle& style_;
  Sink out_;
  int level_ = 0;
};

}  // namespace

std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  char buffer[400];
  const auto end = std::to_chars(buffer, std::end(buffer), value,
                                 exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string out(buffer, end.ptr);
  if (!exponent && out.find('.') == out.npos) out += ".0";
  return out;
}

std::string repr(const Value& value) {
  Sink out;
  write_repr(out, value);
  return out.take();
}

std::string to_text(const Value& value) {
  if (value.is_undefined()) return "";
  return value.text() ? value.text()->bytes : repr(value);
}

std::string to_json(const Value& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return writer.take();
}

}  // namespace fourfold::jinja
