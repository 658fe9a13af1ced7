// Safetensors files from any bytes: no crash, and the tensors of an accepted file cover its data once.
#include "formats/safetensors.hpp"

using namespace fourfold;

namespace {

void require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensors = parse_safetensors({reinterpret_cast<const std::byte*>(data), size});
  if (!tensors) {
    require(!tensors.error().message().empty());
    return 0;
  }
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : *tensors) {
    require(tensor.offset <= size && tensor.bytes <= size - tensor.offset);
    covered += tensor.bytes;
  }
  require(covered <= size - sizeof(std::uint64_t));
  return 0;
}
