// GGUF headers from any bytes: no crash, and what is accepted lies inside the file.
#include <cstring>
#include <functional>

#include "formats/gguf.hpp"

using namespace fourfold;

namespace {

void require(bool condition) {
  if (!condition) __builtin_trap();
}

GgufHead head_of(const std::uint8_t* data, std::size_t size, std::size_t file_size) {
  const std::shared_ptr<std::byte[]> copy(new std::byte[size]);
  if (size > 0) std::memcpy(copy.get(), data, size);
  return {copy, size, file_size};
}

void visit(const Gguf& gguf, std::size_t size) {
  for (const TensorInfo& tensor : gguf.tensors) require(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
  std::size_t words_seen = 0;
  for (const auto& entry : gguf.metadata.entries()) {
    const auto words = gguf.metadata.get_strings(entry.key);
    if (!words) continue;
    for (const std::string_view word : *words) words_seen += 1 + std::hash<std::string_view>{}(word) % 2;
  }
  require(words_seen <= 2 * size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto whole = parse_gguf(head_of(data, size, size), "fuzz.gguf");
  require(whole.ok() || !whole.error().message().empty());
  if (whole) visit(*whole, size);
  // The same file of which only the first half has been read: the same answer, or a request for more.
  std::uint64_t wanted = 0;
  const auto half = parse_gguf(head_of(data, size / 2, size), "fuzz.gguf", &wanted);
  require(wanted != 0 ? !half.ok() && wanted > size / 2 && wanted <= size : half.ok() == whole.ok());
  return 0;
}
