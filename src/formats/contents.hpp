// What the readers of both formats hand to Checkpoint: open files, their tensors, and the metadata.
#pragma once

#include <string>
#include <vector>

#include "formats/file.hpp"
#include "formats/metadata.hpp"
#include "formats/tensor_info.hpp"

namespace fourfold {

struct Contents {
  std::vector<File> files;
  std::vector<TensorInfo> tensors;  // names are unique over all files
  Metadata metadata;
};

// A GGUF file, or the first shard of several named NAME-00001-of-0000N.gguf: all of them are opened.
result<Contents> open_gguf(const std::string& path);

// A folder with config.json and model.safetensors (or model.safetensors.index.json and its shards), or one .safetensors
// file. The metadata is the flattened config.json of the folder, empty if there is none.
result<Contents> open_safetensors(const std::string& path);

}  // namespace fourfold
