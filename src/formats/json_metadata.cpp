// Flattening a JSON object into Metadata, event by event.
#include <deque>
#include <limits>
#include <optional>

#include "formats/json_events.hpp"
#include "formats/message.hpp"
#include "formats/metadata.hpp"

namespace fourfold {
namespace {

// A float that JSON cannot write is passed through the parser as a string with this prefix, followed by its name.
constexpr std::string_view kMarker{"\0float:", 7};
constexpr std::string_view kMarkerText = "\\u0000float:";

struct SpecialFloat {
  std::string_view name;
  double value;
};
constexpr SpecialFloat kSpecialFloats[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"-Infinity", -std::numeric_limits<double>::infinity()},
    {"Infinity", std::numeric_limits<double>::infinity()},
};

std::optional<double> special_float(std::string_view name) {
  for (const auto& row : kSpecialFloats)
    if (row.name == name) return row.value;
  return std::nullopt;
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(" \t\r\n", at);
  return next == std::string_view::npos ? text.size() : next;
}

struct Match {
  std::string_view name;  // which special float
  std::size_t length;     // of the text it replaces; 0: none here
};

// Matches NaN, Infinity or -Infinity at `at`.
Match match_bare(std::string_view text, std::size_t at) {
  for (const auto& row : kSpecialFloats)
    if (text.substr(at, row.name.size()) == row.name) return {row.name, row.name.size()};
  return {{}, 0};
}

// Matches {"__float__": "NaN"} at `at`, with any space between the tokens.
Match match_wrapped(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  for (const std::string_view token : {"{", "\"__float__\"", ":", "\""}) {
    if (text.substr(at, token.size()) != token) return {{}, 0};
    at += token.size();
    if (token != "\"") at = skip_space(text, at);
  }
  const Match value = match_bare(text, at);
  if (value.length == 0 || text.substr(at + value.length, 1) != "\"") return {{}, 0};
  at = skip_space(text, at + value.length + 1);
  if (text.substr(at, 1) != "}") return {{}, 0};
  return {value.name, at + 1 - begin};
}

// Replaces both notations of special floats outside strings by marked strings.
std::string mark_special_floats(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    Match match{{}, 0};
    if (!in_string && c == '{') match = match_wrapped(text, at);
    if (!in_string && (c == 'N' || c == 'I' || c == '-')) match = match_bare(text, at);
    if (match.length > 0) {
      out.append("\"").append(kMarkerText).append(match.name).append("\"");
      at += match.length;
      continue;
    }
    const bool escape = in_string && c == '\\' && at + 1 < text.size();
    if (c == '"') in_string = !in_string;
    out.append(text.substr(at, escape ? 2 : 1));
    at += escape ? 2 : 1;
  }
  return out;
}

using Texts = std::deque<std::string>;

// One array being read: its values by kind, and its JSON text for when they are not all scalars of one kind.
class Array {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    scalars_ = scalars_ && text_.size() == 1;
  }
  void close(char bracket) { text_ += bracket; }
  void key(const std::string& name) { add(json_string(name) + ":"); }
  void null() {
    add("null");
    scalars_ = false;
  }
  void boolean(bool value) {
    add(value ? "true" : "false");
    ints_.push_back(value ? 1 : 0);
    booleans_ = true;
  }
  void integer(std::int64_t value) {
    add(std::to_string(value));
    ints_.push_back(value);
    numbers_.push_back(static_cast<double>(value));
  }
  void number(double value, std::string_view token) {
    add(token);
    numbers_.push_back(value);
    fractions_ = true;
  }
  void string(std::string_view value) {
    add(json_string(value));
    strings_.push_back(value);
  }

  MetaValue finish(Texts& texts) {
    const bool some_numbers = !ints_.empty() || !numbers_.empty();
    const bool one_kind = !(some_numbers && !strings_.empty()) && !(booleans_ && fractions_);
    if (!scalars_ || !one_kind) return std::string_view(texts.emplace_back(std::move(text_)));
    if (!strings_.empty()) return std::move(strings_);
    if (fractions_) return std::move(numbers_);
    return std::move(ints_);
  }

 private:
  void separate() {
    if (!text_.empty() && text_.back() != '[' && text_.back() != '{' && text_.back() != ':') text_ += ',';
  }
  void add(std::string_view token) {
    separate();
    text_ += token;
  }

  std::vector<std::int64_t> ints_;
  std::vector<double> numbers_;
  std::vector<std::string_view> strings_;
  bool scalars_ = true, booleans_ = false, fractions_ = false;
  std::string text_;
};

class Flattener : public JsonEvents {
 public:
  Flattener(Metadata& out, Texts& texts) : out_(out), texts_(texts) {}

  bool null() override {
    if (array_) array_->null();
    return in_object();
  }
  bool boolean(bool value) override {
    if (!array_) return add(value);
    array_->boolean(value);
    return true;
  }
  bool integer(std::int64_t value) override {
    if (!array_) return add(value);
    array_->integer(value);
    return true;
  }
  bool unsigned_integer(std::uint64_t value) override {
    if (!array_) return add(value);
    if (value <= std::numeric_limits<std::int64_t>::max())
      array_->integer(static_cast<std::int64_t>(value));
    else
      array_->number(static_cast<double>(value), std::to_string(value));
    return true;
  }
  bool number(double value, std::string_view token) override {
    if (!array_) return add(value);
    array_->number(value, token);
    return true;
  }
  bool string(std::string& value) override {
    if (value.starts_with(kMarker)) {
      const std::string_view name = std::string_view(value).substr(kMarker.size());
      if (const auto special = special_float(name)) return number(*special, name);
    }
    const std::string_view kept = texts_.emplace_back(std::move(value));
    if (!array_) return add(kept);
    array_->string(kept);
    return true;
  }
  bool begin_object() override {
    if (array_)
      array_->open('{');
    else
      prefixes_.push_back(path_.size());
    return true;
  }
  bool key(std::string& name) override {
    if (array_) {
      array_->key(name);
      return true;
    }
    path_.resize(prefixes_.back());
    if (!path_.empty()) path_ += '.';
    path_ += name;
    return true;
  }
  bool end_object() override {
    if (array_)
      array_->close('}');
    else
      prefixes_.pop_back();
    return true;
  }
  bool begin_array() override {
    if (!in_object()) return false;
    if (!array_) {
      array_.emplace();
      array_depth_ = depth();
    }
    array_->open('[');
    return true;
  }
  bool end_array() override {
    array_->close(']');
    if (depth() > array_depth_) return true;
    MetaValue value = array_->finish(texts_);
    array_.reset();
    return add(std::move(value));
  }

 private:
  bool in_object() { return depth() > 0 || fail("it is not a JSON object ({...})"); }
  bool add(MetaValue value) {
    if (!in_object()) return false;
    return out_.add(path_, std::move(value)) || fail("key " + quote(path_) + " stands there twice");
  }

  Metadata& out_;
  Texts& texts_;
  std::string path_;                   // dotted key of the value being read
  std::vector<std::size_t> prefixes_;  // for each open object, the length of its own key
  std::optional<Array> array_;         // the outermost open array
  int array_depth_ = 0;
};

}  // namespace

result<Metadata> metadata_from_json(std::string_view text, std::string source) {
  const auto texts = std::make_shared<Texts>();
  Metadata out(source, texts);
  const std::string marked = mark_special_floats(text);
  Flattener events(out, *texts);
  const status parsed = parse_json(marked, events);
  if (!parsed.ok()) return source.empty() ? parsed : in_file(source, parsed);
  return out;
}

}  // namespace fourfold
