#include "text/pre_tokenizer.hpp"

#include <array>

namespace fourfold {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using Behavior = PreTokenizer::Behavior;

struct Part {
  Span span;
  bool separator;
};

// All of `piece`, as separators and what lies between them.
std::vector<Part> parts_of(Span piece, const std::vector<Span>& matches, bool invert) {
  std::vector<Part> parts;
  parts.reserve(matches.size() * 2 + 1);
  std::uint32_t at = piece.begin;
  for (const Span& match : matches) {
    if (match.begin > at) parts.push_back({{at, match.begin}, invert});
    parts.push_back({match, !invert});
    at = match.end;
  }
  if (at < piece.end) parts.push_back({{at, piece.end}, invert});
  return parts;
}

void join_parts(const std::vector<Part>& parts, Behavior behavior, std::vector<Span>& out) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [span, separator] = parts[i];
    bool joins = false;  // with the piece before
    if (i > 0) {
      const bool before = parts[i - 1].separator;
      if (behavior == Behavior::contiguous) joins = separator == before;
      if (behavior == Behavior::merged_with_previous) joins = separator && !before;
      if (behavior == Behavior::merged_with_next) joins = !separator && before;
    }
    if (behavior == Behavior::removed && separator) continue;
    if (joins)
      out.back().end = span.end;
    else
      out.push_back(span);
  }
}

status split(const PreTokenizer::Split& step, Pieces& pieces) {
  std::vector<Span> out, matches;
  out.reserve(pieces.spans.size());
  for (const Span& piece : pieces.spans) {
    matches.clear();
    FOURFOLD_TRY(step.pattern.find_all(pieces.text, piece, matches));
    join_parts(parts_of(piece, matches, step.invert), step.behavior, out);
  }
  pieces.spans = std::move(out);
  return {};
}

void rewrite(const PreTokenizer::Rewrite& step, bool at_start, Pieces& pieces) {
  Pieces out;
  for (std::size_t i = 0; i < pieces.spans.size(); ++i) {
    const auto [begin, end] = pieces.spans[i];
    std::string piece = pieces.text.substr(begin, end - begin);
    if (!step.from.empty()) piece = replace_all(piece, step.from, step.to);
    const bool here = !step.first_only || (at_start && begin == 0);
    const auto first = static_cast<std::uint32_t>(out.text.size());
    if (here && !piece.starts_with(step.prefix)) out.text += step.prefix;
    out.text += piece;
    out.spans.push_back({first, static_cast<std::uint32_t>(out.text.size())});
  }
  pieces = std::move(out);
}

struct Named {
  std::string_view name;
  std::array<std::string_view, 2> patterns;  // applied in order; the second may be empty
  bool nfc, whole_pieces_first;
};

// As the tokenizer.json files of the models do it: SmolLM2 (digits alone, then GPT-2), GPT-2, Llama 3 and Qwen2.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::array<Named, 4> kNamed = {{
    {"gpt-2", {kGpt2Pattern}, false, false},
    {"llama-bpe", {kLlama3}, false, true},
    {"qwen2", {kQwen2}, true, false},
    {"smollm", {R"(\p{N})", kGpt2Pattern}, false, false},
}};

}  // namespace

result<Pieces> PreTokenizer::apply(std::string text, bool at_start) const {
  Pieces pieces{std::move(text), {}};
  if (!pieces.text.empty()) pieces.spans.push_back({0, static_cast<std::uint32_t>(pieces.text.size())});
  for (const Step& step : steps_) {
    if (const auto* cut = std::get_if<Split>(&step))
      FOURFOLD_TRY(split(*cut, pieces));
    else
      rewrite(std::get<Rewrite>(step), at_start, pieces);
  }
  return pieces;
}

result<PreTokenizerRules> named_pre_tokenizer(std::string_view name) {
  std::string known;
  for (const Named& named : kNamed) {
    if (named.name != name) {
      known += (known.empty() ? "" : ", ") + std::string(named.name);
      continue;
    }
    PreTokenizerRules rules;
    if (named.nfc) rules.normalizer.add(Normalizer::Unicode{.compose = true, .compatibility = false});
    rules.whole_pieces_first = named.whole_pieces_first;
    for (const std::string_view expression : named.patterns) {
      if (expression.empty()) continue;
      auto pattern = Pattern::compile(expression);
      if (!pattern) return pattern.error();
      rules.pre_tokenizer.add(PreTokenizer::Split{.pattern = std::move(*pattern)});
    }
    return rules;
  }
  return status(Code::unsupported, "pre-tokenizer '" + std::string(name) + "' is not known; known are " + known);
}

}  // namespace fourfold
