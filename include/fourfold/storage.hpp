// Storage: how numbers lie in a file or in memory. One row per storage; sizes are exact.
//
// Block layouts (GGUF's names and byte orders) are defined element by element in blocks.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fourfold {

enum class Storage : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
  mxfp4,
  fp8,
  int4,
  nvfp4
};

struct StorageInfo {
  Storage storage;
  std::string_view name;  // as the command line prints and parses it
  int block_elements;     // elements per block, along a row
  int block_bytes;        // bytes per block
  int gguf_type;          // ggml_type number in a GGUF file; -1: GGUF files do not hold it

  constexpr double bits_per_element() const { return 8.0 * block_bytes / block_elements; }
};

inline constexpr std::array kStorages = {
    StorageInfo{Storage::f32, "f32", 1, 4, 0},        StorageInfo{Storage::f16, "f16", 1, 2, 1},
    StorageInfo{Storage::bf16, "bf16", 1, 2, 30},     StorageInfo{Storage::q4_0, "q4_0", 32, 18, 2},
    StorageInfo{Storage::q4_1, "q4_1", 32, 20, 3},    StorageInfo{Storage::q5_0, "q5_0", 32, 22, 6},
    StorageInfo{Storage::q5_1, "q5_1", 32, 24, 7},    StorageInfo{Storage::q8_0, "q8_0", 32, 34, 8},
    StorageInfo{Storage::q4_k, "q4_k", 256, 144, 12}, StorageInfo{Storage::q5_k, "q5_k", 256, 176, 13},
    StorageInfo{Storage::q6_k, "q6_k", 256, 210, 14}, StorageInfo{Storage::mxfp4, "mxfp4", 32, 17, 39},
    StorageInfo{Storage::fp8, "fp8", 1, 1, -1},       StorageInfo{Storage::int4, "int4", 256, 133, -1},
    StorageInfo{Storage::nvfp4, "nvfp4", 64, 36, 40},
};

constexpr const StorageInfo& info(Storage s) { return kStorages[static_cast<std::size_t>(s)]; }

constexpr std::optional<Storage> storage_from_name(std::string_view name) {
  for (const auto& row : kStorages)
    if (row.name == name) return row.storage;
  return std::nullopt;
}

constexpr std::optional<Storage> storage_from_gguf(std::int64_t type) {
  for (const auto& row : kStorages)
    if (row.gguf_type >= 0 && row.gguf_type == type) return row.storage;
  return std::nullopt;
}

}  // namespace fourfold
