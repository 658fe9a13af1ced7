// JSON configuration files from any bytes: no crash, and every value can be asked for.
#include "formats/metadata.hpp"

using namespace fourfold;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto metadata = metadata_from_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!metadata) return metadata.error().message().empty() ? __builtin_trap(), 0 : 0;
  for (const auto& [key, value] : metadata->entries()) {
    const bool readable = metadata->get_float(key).ok() || metadata->get_bool(key).ok() ||
                          metadata->get_string(key).ok() || metadata->get_floats(key).ok() ||
                          metadata->get_strings(key).ok();
    if (!readable) __builtin_trap();
  }
  return 0;
}
