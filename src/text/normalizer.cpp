#include "text/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "text/utf8.hpp"

namespace fourfold {
namespace {

int combining_class(std::int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Puts each run of combining marks in canonical order, keeping the order of marks of one class.
void order_marks(std::vector<std::int32_t>& codes) {
  auto marks = [](std::int32_t code) { return combining_class(code) != 0; };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto first = std::find_if(at, codes.end(), marks);
    const auto last = std::find_if_not(first, codes.end(), marks);
    std::stable_sort(first, last, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = last;
  }
}

void normalize_run(std::string_view run, const Normalizer::Unicode& form, std::string& out) {
  std::vector<std::int32_t> codes;
  codes.reserve(run.size());
  const int decompose = UTF8PROC_DECOMPOSE | (form.compatibility ? UTF8PROC_COMPAT : 0);
  for (std::size_t at = 0; at < run.size();) {
    const Utf8Unit unit = first_character(run.substr(at));
    at += unit.length;
    std::int32_t parts[32];  // the longest decomposition has 18
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<std::int32_t>(unit.code), parts, 32,
                                               static_cast<utf8proc_option_t>(decompose), &boundary);
    if (count > 0 && count <= 32)
      codes.insert(codes.end(), parts, parts + count);
    else
      codes.push_back(static_cast<std::int32_t>(unit.code));
  }
  order_marks(codes);
  auto size = static_cast<utf8proc_ssize_t>(codes.size());
  if (form.compose) {
    const int options = UTF8PROC_COMPOSE | UTF8PROC_STABLE | (form.compatibility ? UTF8PROC_COMPAT : 0);
    size = utf8proc_normalize_utf32(codes.data(), size, static_cast<utf8proc_option_t>(options));
  }
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<std::uint32_t>(codes[i]));
}

std::string unicode_form(std::string_view text, const Normalizer::Unicode& form) {
  // ASCII is the same in every form.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t good = valid_prefix(text);
    if (good > 0) normalize_run(text.substr(0, good), form, out);
    text.remove_prefix(good);
    if (text.empty()) break;
    const std::uint32_t bad = first_character(text).length;
    out += text.substr(0, bad);
    text.remove_prefix(bad);
  }
  return out;
}

result<std::string> replaced(std::string_view text, const Normalizer::Replace& step) {
  std::vector<Span> matches;
  FOURFOLD_TRY(step.pattern.find_all(text, {0, static_cast<std::uint32_t>(text.size())}, matches));
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  for (const Span& match : matches) {
    out += text.substr(at, match.begin - at);
    out += step.with;
    at = match.end;
  }
  out += text.substr(at);
  return out;
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t hit; (hit = text.find(from)) != text.npos; text.remove_prefix(hit + from.size())) {
    out += text.substr(0, hit);
    out += to;
  }
  out += text;
  return out;
}

result<std::string> Normalizer::apply(std::string_view text) const {
  std::string now(text);
  for (const Step& step : steps_) {
    if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!now.empty()) now.insert(0, prepend->text);
    } else if (const auto* replace = std::get_if<Replace>(&step)) {
      auto next = replaced(now, *replace);
      if (!next) return next.error();
      now = std::move(*next);
    } else {
      now = unicode_form(now, std::get<Unicode>(step));
    }
  }
  return now;
}

}  // namespace fourfold
