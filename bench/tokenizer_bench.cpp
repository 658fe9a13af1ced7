// Encoding 100 kB and 1 MB of one kind of text: bytes of text per second. Ten times the text has to take at most 15
// times as long. The cache misses of the merge table and of the list of symbols bind. No FLOPs.
#include <benchmark/benchmark.h>

#include <fstream>
#include <sstream>

#include "text/tokenizer.hpp"

namespace fourfold {
namespace {

Tokenizer load(const std::string& name) {
  std::ifstream file(FOURFOLD_TEST_DATA "/tokenizers/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return Tokenizer::from_json(text.str(), "").value();
}

std::string repeated(const std::string& unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& unit) {
  const std::string text = repeated(unit, static_cast<std::size_t>(state.range(0)));
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer.encode(text);
    if (!ids) return state.SkipWithError(ids.error().message().c_str());
    tokens = ids->size();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

const std::pair<const char*, const char*> kTexts[] = {
    {"mixed", "The world's 123 people; caf\xC3\xA9 \xE4\xB8\x96\xE7\x95\x8C\n\tfor (int i = 0; i < 10; ++i) {}\r\n"},
    {"letters", "A"},
    {"spaces", " "},
    {"dots", "."},
    {"ideographs", "\xE4\xB8\xAD"},
    {"lines", "\n"},
    {"us", "us"},
    {"not UTF-8", "\xFF"},
};

const bool registered = [] {
  for (const char* name : {"smollm", "llama-bpe", "llama-2"})
    for (const auto& [kind, unit] : kTexts)
      benchmark::RegisterBenchmark(
          (std::string(name) + "/" + kind).c_str(),
          [tokenizer = load(name), unit = std::string(unit)](auto& state) { encode(state, tokenizer, unit); })
          ->Arg(100'000)
          ->Arg(1'000'000)
          ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace fourfold
