// GGUF versions 2 and 3, little-endian (format: the GGUF specification of the ggml project).
//
//   "GGUF" version:u32 tensors:u64 keys:u64 | keys x (name, type:u32, value) | tensors x (name, rank:u32,
//   dims:u64[rank] innermost first, type:u32, offset:u64) | padding to general.alignment (default 32) | data, each
//   tensor aligned alike
//
// Strings are length:u64 and bytes; arrays are type:u32, count:u64 and values. Every length and count is compared with
// the bytes that are left before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fourfold/status.hpp>
#include <memory>
#include <string>
#include <vector>

#include "formats/file.hpp"
#include "formats/metadata.hpp"
#include "formats/tensor_info.hpp"

namespace fourfold {

// The first `size` bytes of a GGUF file of `file_size` bytes; the parsed metadata keeps `bytes` alive.
struct GgufHead {
  std::shared_ptr<const std::byte[]> bytes;
  std::size_t size = 0;
  std::uint64_t file_size = 0;
};

struct Gguf {
  std::uint32_t version = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // file = 0, offsets absolute
};

// If the header reaches beyond head.size but not beyond the file: an error, with the size it needs in *wanted.
result<Gguf> parse_gguf(const GgufHead& head, std::string source, std::uint64_t* wanted = nullptr);

// Reads as much of the file as its header needs, at most 32 MiB.
result<Gguf> read_gguf(const File& file);

}  // namespace fourfold
