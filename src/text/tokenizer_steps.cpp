#include "text/tokenizer_steps.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "formats/message.hpp"

namespace fourfold {
namespace {

using Json = nlohmann::json;

status malformed(const char* name, const char* expected) {
  return {Code::malformed, std::string("'") + name + "' is not " + expected};
}

status unsupported(const char* role, const std::string& what, const char* supported) {
  return {Code::unsupported, std::string(role) + " " + quote(what) + " is not supported; supported are " + supported};
}

result<std::string> type_of_step(const Json& step) {
  std::string type;
  FOURFOLD_TRY(read_text(step, "type", type));
  if (type.empty()) return malformed("type", "a string");
  return type;
}

// {"String": text} or {"Regex": expression}.
result<Pattern> pattern_of(const Json& pattern) {
  std::string literal, expression;
  FOURFOLD_TRY(read_text(pattern, "String", literal));
  FOURFOLD_TRY(read_text(pattern, "Regex", expression));
  if (literal.empty() == expression.empty()) return malformed("pattern", "a String or a Regex that is not empty");
  return expression.empty() ? Pattern::literal(literal) : Pattern::compile(expression);
}

template <class Add>
status for_each(const Json& list, const char* name, Add add) {
  if (!list.is_array()) return malformed(name, "an array");
  for (const Json& step : list) FOURFOLD_TRY(add(step));
  return {};
}

using Behavior = PreTokenizer::Behavior;
constexpr std::array<std::pair<std::string_view, Behavior>, 5> kBehaviors = {{
    {"Isolated", Behavior::isolated},
    {"Removed", Behavior::removed},
    {"Contiguous", Behavior::contiguous},
    {"MergedWithPrevious", Behavior::merged_with_previous},
    {"MergedWithNext", Behavior::merged_with_next},
}};

status add_split(const Json& step, result<Pattern> pattern, PreTokenizer& out) {
  if (!pattern) return pattern.error();
  std::string name = "Isolated";
  bool invert = false;
  FOURFOLD_TRY(read_text(step, "behavior", name));
  FOURFOLD_TRY(read_flag(step, "invert", invert));
  for (const auto& [known, behavior] : kBehaviors) {
    if (known != name) continue;
    out.add(PreTokenizer::Split{std::move(*pattern), behavior, invert});
    return {};
  }
  return unsupported("split behavior", name, "Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext");
}

status add_digits(const Json& step, PreTokenizer& out) {
  bool individual = false;
  FOURFOLD_TRY(read_flag(step, "individual_digits", individual));
  auto pattern = Pattern::compile(individual ? R"(\p{N})" : R"(\p{N}+)");
  if (!pattern) return pattern.error();
  out.add(PreTokenizer::Split{.pattern = std::move(*pattern)});
  return {};
}

status add_byte_level(const Json& step, PreTokenizer& out) {
  bool prefix = true, use_pattern = true;
  FOURFOLD_TRY(read_flag(step, "add_prefix_space", prefix));
  FOURFOLD_TRY(read_flag(step, "use_regex", use_pattern));
  if (prefix) out.add(PreTokenizer::Rewrite{.from = {}, .to = {}, .prefix = " ", .first_only = false});
  if (!use_pattern) return {};
  auto pattern = Pattern::compile(kGpt2Pattern);
  if (!pattern) return pattern.error();
  out.add(PreTokenizer::Split{.pattern = std::move(*pattern)});
  return {};
}

// Whether and where Metaspace puts its mark: "always", "first" or "never".
result<std::string> prepend_scheme(const Json& step) {
  std::string mark(kSpaceMark), scheme = "always";
  FOURFOLD_TRY(read_text(step, "replacement", mark));
  if (mark != kSpaceMark) return unsupported("Metaspace replacement", mark, "U+2581");
  bool prefix = true;
  FOURFOLD_TRY(read_flag(step, "add_prefix_space", prefix));  // of older files
  if (!prefix) scheme = "never";
  FOURFOLD_TRY(read_text(step, "prepend_scheme", scheme));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return unsupported("Metaspace prepend_scheme", scheme, "always, first, never");
  return scheme;
}

status add_metaspace(const Json& step, PreTokenizer& out) {
  const auto scheme = prepend_scheme(step);
  if (!scheme) return scheme.error();
  bool cut = true;
  FOURFOLD_TRY(read_flag(step, "split", cut));
  out.add(PreTokenizer::Rewrite{.from = " ",
                                .to = std::string(kSpaceMark),
                                .prefix = *scheme == "never" ? std::string() : std::string(kSpaceMark),
                                .first_only = *scheme == "first"});
  if (cut) out.add(PreTokenizer::Split{Pattern::literal(kSpaceMark), Behavior::merged_with_next, false});
  return {};
}

}  // namespace

const Json& json_member(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

status read_flag(const Json& object, const char* name, bool& out) {
  const Json& value = json_member(object, name);
  if (value.is_null()) return {};
  if (!value.is_boolean()) return malformed(name, "true or false");
  out = value.get<bool>();
  return {};
}

status read_text(const Json& object, const char* name, std::string& out) {
  const Json& value = json_member(object, name);
  if (value.is_null()) return {};
  if (!value.is_string()) return malformed(name, "a string");
  out = value.get_ref<const std::string&>();
  return {};
}

status add_normalizer(const Json& step, Normalizer& out) {
  if (step.is_null()) return {};
  const auto type = type_of_step(step);
  if (!type) return type.error();
  if (*type == "Sequence")
    return for_each(json_member(step, "normalizers"), "normalizers",
                    [&](const Json& s) { return add_normalizer(s, out); });
  if (*type == "NFC" || *type == "NFD" || *type == "NFKC" || *type == "NFKD") {
    out.add(Normalizer::Unicode{.compose = type->back() == 'C', .compatibility = type->size() == 4});
  } else if (*type == "Prepend") {
    Normalizer::Prepend prepend;
    FOURFOLD_TRY(read_text(step, "prepend", prepend.text));
    out.add(std::move(prepend));
  } else if (*type == "Replace") {
    auto pattern = pattern_of(json_member(step, "pattern"));
    if (!pattern) return pattern.error();
    Normalizer::Replace replace{std::move(*pattern), {}};
    FOURFOLD_TRY(read_text(step, "content", replace.with));
    out.add(std::move(replace));
  } else {
    return unsupported("normalizer", *type, "NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence");
  }
  return {};
}

status add_pre_tokenizer(const Json& step, PreTokenizer& out, bool& byte_level) {
  if (step.is_null()) return {};
  const auto type = type_of_step(step);
  if (!type) return type.error();
  if (*type == "Sequence")
    return for_each(json_member(step, "pretokenizers"), "pretokenizers",
                    [&](const Json& s) { return add_pre_tokenizer(s, out, byte_level); });
  if (byte_level) return unsupported("pre-tokenizer", *type + " behind ByteLevel", "sequences that end with ByteLevel");
  if (*type == "Split") return add_split(step, pattern_of(json_member(step, "pattern")), out);
  if (*type == "Digits") return add_digits(step, out);
  if (*type == "Punctuation")
    return add_split(step, Pattern::compile(R"([\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E\p{P}])"), out);
  if (*type == "Metaspace") return add_metaspace(step, out);
  if (*type != "ByteLevel")
    return unsupported("pre-tokenizer", *type, "ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split");
  byte_level = true;
  return add_byte_level(step, out);
}

status add_decoder(const Json& step, bool byte_level, TokenizerParts& out) {
  constexpr const char* kSupported = "ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse, Strip";
  if (step.is_null()) return {};
  const auto type = type_of_step(step);
  if (!type) return type.error();
  if (*type == "Sequence")
    return for_each(json_member(step, "decoders"), "decoders",
                    [&](const Json& s) { return add_decoder(s, byte_level, out); });
  if ((*type == "ByteLevel") != byte_level)
    return unsupported("decoder", *type, byte_level ? "ByteLevel, as the pre-tokenizer is" : kSupported);
  if (*type == "ByteLevel" || *type == "ByteFallback" || *type == "Fuse") return {};
  if (*type == "Metaspace") {
    const auto scheme = prepend_scheme(step);
    if (!scheme) return scheme.error();
    out.mark_is_space = true;
    out.strip_spaces = *scheme == "never" ? 0 : 1;
    return {};
  }
  std::string content;
  FOURFOLD_TRY(read_text(step, "content", content));
  if (*type == "Replace") {
    std::string from;
    FOURFOLD_TRY(read_text(json_member(step, "pattern"), "String", from));
    if (from != kSpaceMark || content != " ") return unsupported("decoder Replace of", from, "U+2581 by a space");
    out.mark_is_space = true;
    return {};
  }
  if (*type != "Strip") return unsupported("decoder", *type, kSupported);
  const Json& start = json_member(step, "start");
  if (content != " " || !start.is_number_unsigned() || start.get<std::uint64_t>() > 1 ||
      json_member(step, "stop") != Json(0))
    return unsupported("decoder Strip of", content, "at most one space at the start");
  out.strip_spaces = start.get<int>();
  return {};
}

namespace {

// The ids of one special token of a template.
status add_template_ids(const Json& step, const Json& item, const Vocabulary& vocabulary, std::vector<int>& out) {
  std::string name;
  FOURFOLD_TRY(read_text(item, "id", name));
  const Json& ids = json_member(json_member(json_member(step, "special_tokens"), name.c_str()), "ids");
  return for_each(ids, "special_tokens", [&](const Json& id) -> status {
    if (!id.is_number_unsigned() ||
        !vocabulary.contains(static_cast<std::int64_t>(std::min<std::uint64_t>(id.get<std::uint64_t>(), 0x7FFFFFFF))))
      return malformed("special_tokens", "a list of the vocabulary's ids");
    out.push_back(id.get<int>());
    return {};
  });
}

}  // namespace

status add_post_processor(const Json& step, TokenizerParts& out) {
  if (step.is_null()) return {};
  const auto type = type_of_step(step);
  if (!type) return type.error();
  if (*type == "Sequence")
    return for_each(json_member(step, "processors"), "processors",
                    [&](const Json& s) { return add_post_processor(s, out); });
  if (*type == "ByteLevel") return {};
  if (*type != "TemplateProcessing")
    return unsupported("post-processor", *type, "ByteLevel, Sequence, TemplateProcessing");
  bool seen = false;  // the text's own place
  return for_each(json_member(step, "single"), "single", [&](const Json& item) -> status {
    if (item.is_object() && item.contains("Sequence")) {
      if (seen) return malformed("single", "a template with one Sequence");
      seen = true;
      return {};
    }
    return add_template_ids(step, json_member(item, "SpecialToken"), out.vocabulary(), seen ? out.after : out.before);
  });
}

}  // namespace fourfold
