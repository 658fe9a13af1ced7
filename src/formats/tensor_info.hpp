// TensorInfo: one tensor's row in a file's table of contents.
#pragma once

#include <cstdint>
#include <fourfold/storage.hpp>
#include <optional>
#include <string>
#include <vector>

namespace fourfold {

struct TensorInfo {
  std::string name;
  std::optional<Storage> storage;   // empty: this version can list the tensor, not read it
  std::string type_name;            // as its format calls it: "Q4_K", "BF16", "type 99"
  std::vector<std::int64_t> shape;  // outermost first: rows, then columns
  std::uint64_t bytes = 0;          // 0 for a GGUF type of unknown size
  int file = 0;                     // which file of the checkpoint, from 0
  std::uint64_t offset = 0;         // of its first byte in that file
};

}  // namespace fourfold
