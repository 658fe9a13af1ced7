#include "text/pattern.hpp"

#include "text/utf8.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>

namespace fourfold {
namespace {

constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";  // Oniguruma's \w
constexpr std::uint32_t kMatchLimit = 10'000'000;                          // plus 32 per byte of text
constexpr std::uint32_t kHeapLimitKiB = 64 * 1024;
constexpr std::size_t kLongestExpression = 16 * 1024;

status refuse(std::string_view expression, std::string_view construct) {
  return {Code::unsupported,
          "pattern '" + std::string(expression) + "': " + std::string(construct) + " is not supported"};
}

// Rewrites what PCRE2 reads differently from Oniguruma.
result<std::string> translate(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char escaped = expression[++i];
      if (escaped == 's') {
        out += "\\p{White_Space}";
      } else if (escaped == 'S') {
        out += "\\P{White_Space}";
      } else if (escaped == 'w' || (escaped == 'W' && !in_class)) {
        out += in_class ? std::string(kWord) : (escaped == 'w' ? "[" : "[^") + std::string(kWord) + "]";
      } else if (std::string_view("WhHRXGKkgCQEN").find(escaped) != std::string_view::npos) {
        return refuse(expression, std::string("\\") + escaped + (in_class ? " in a class" : ""));
      } else {
        out += {'\\', escaped};
      }
      continue;
    }
    if (in_class && (c == '[' || (c == '&' && expression.substr(i).starts_with("&&"))))
      return refuse(expression, c == '[' ? "'[' in a class" : "'&&' in a class");
    if (c == '[') {
      in_class = true;
      out += c;
      if (expression.substr(i + 1).starts_with('^')) out += expression[++i];
      continue;
    }
    if (c == ']') in_class = false;
    if (!in_class && expression.substr(i).starts_with("(?m")) return refuse(expression, "(?m");
    if (!in_class && expression.substr(i).starts_with("(*")) return refuse(expression, "(*");
    out += c;
  }
  return out;
}

template <class T, void (*Free)(T*)>
struct Freer {
  void operator()(T* p) const { Free(p); }
};
using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context, pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context, pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data, pcre2_match_data_free>>;

std::string message_of(int error) {
  PCRE2_UCHAR text[128];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

result<Pattern> Pattern::compile(std::string_view expression) {
  auto translated = translate(expression);
  if (!translated) return translated.error();
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), kLongestExpression);
  int error = 0;
  PCRE2_SIZE where = 0;
  constexpr std::uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(), kOptions,
                                   &error, &where, context.get());
  if (code == nullptr)
    return status(Code::malformed, "pattern '" + std::string(expression) + "': " + message_of(error));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it the interpreter matches
  Pattern pattern;
  pattern.source_ = expression;
  pattern.code_ = std::shared_ptr<const void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return pattern;
}

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.source_ = text;
  return pattern;
}

status Pattern::find_all(std::string_view text, Span within, std::vector<Span>& out) const {
  std::uint32_t at = within.begin;
  if (!code_) {
    const std::string_view part = text.substr(0, within.end);
    for (std::size_t hit; (hit = part.find(source_, at)) != part.npos; at = out.back().end)
      out.push_back({static_cast<std::uint32_t>(hit), static_cast<std::uint32_t>(hit + source_.size())});
    return {};
  }
  while (at < within.end) {
    const std::string_view rest = text.substr(at, within.end - at);
    const std::size_t good = valid_prefix(rest);
    if (good > 0) FOURFOLD_TRY(find_in_run(rest.substr(0, good), at, out));
    at += static_cast<std::uint32_t>(good);
    if (good < rest.size()) at += first_character(rest.substr(good)).length;
  }
  return {};
}

status Pattern::find_in_run(std::string_view run, std::uint32_t offset, std::vector<Span>& out) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const MatchContext context(pcre2_match_context_create(nullptr));
  const MatchData data(pcre2_match_data_create(1, nullptr));
  const std::uint64_t limit = std::uint64_t{kMatchLimit} + 32 * std::uint64_t{run.size()};
  pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, 0xFFFFFFFF)));
  pcre2_set_depth_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(run.data());
  for (std::size_t at = 0; at < run.size();) {
    int found = pcre2_match(code, subject, run.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code, subject, run.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      return {Code::resource,
              "pattern '" + source_ + "' on a text of " + std::to_string(run.size()) + " bytes: " + message_of(found)};
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    if (ends[1] > ends[0]) {
      out.push_back({offset + static_cast<std::uint32_t>(ends[0]), offset + static_cast<std::uint32_t>(ends[1])});
      at = ends[1];
    } else {
      at = std::max<std::size_t>(at, ends[1]);
      if (at < run.size()) at += first_character(run.substr(at)).length;
    }
  }
  return {};
}

}  // namespace fourfold
