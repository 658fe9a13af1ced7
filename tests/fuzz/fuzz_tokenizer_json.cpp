// Any bytes as tokenizer.json, then as text for what was built. Input: the file, a zero byte, the text.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const auto tokenizer = fourfold::Tokenizer::from_json(input.substr(0, end), "");
  if (!tokenizer) return 0;
  const std::string_view text =
      end < size ? input.substr(end + 1) : std::string_view("A text: \xF0\x9F\xA6\x99 123\n\xFF");
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer->encode(text, {.add_bos = {}, .parse_special = parse_special});
    if (!ids) continue;
    for (const int id : *ids)
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
    fourfold::Utf8Stream stream;
    std::string out = stream.push(tokenizer->decode(*ids, true));
    out += stream.flush();
    if (fourfold::valid_prefix(out) != out.size()) std::abort();
  }
  return 0;
}
