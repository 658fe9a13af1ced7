// Checkpoint: an open model file or folder, whatever its format: metadata, a table of tensors, and their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fourfold/status.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/contents.hpp"
#include "formats/metadata.hpp"
#include "formats/tensor_info.hpp"

namespace fourfold {

class Checkpoint {
 public:
  enum class Format { gguf, safetensors };

  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;

  Format format() const { return format_; }
  const std::string& path() const { return path_; }
  std::string name() const;  // the path's last part, as error messages begin with it
  // GGUF's general.architecture, or config.json's model_type; empty if the file does not say.
  const std::string& architecture() const { return architecture_; }
  const Metadata& metadata() const { return contents_.metadata; }  // GGUF keys, or the flattened config.json

  std::span<const TensorInfo> tensors() const { return contents_.tensors; }
  const TensorInfo* find(std::string_view name) const;

  // Bytes offset .. offset + out.size() of one tensor. Safe from several threads. Beyond the tensor: invalid_argument;
  // a type without a storage: unsupported; a file that has become shorter: malformed.
  status read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;

  // The same for a tensor of any type: bytes as they lie in the file.
  status read_raw(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;

  std::uint64_t file_bytes() const;  // all files together

  // Text of a small file beside safetensors weights: "tokenizer.json", "chat_template.jinja", ... (at most 128 MiB).
  // GGUF models have none: not_found.
  result<std::string> side_file(std::string_view name) const;

 private:
  friend result<Checkpoint> open_checkpoint(const std::string& path);
  Checkpoint(Format format, std::string path, Contents contents);

  Format format_;
  std::string path_;
  std::string architecture_;
  Contents contents_;
  std::unordered_map<std::string_view, std::size_t> index_;  // views of the tensors' names
};

// Opens a .gguf (one file, or the first of several shards), a folder with config.json and safetensors, or one
// .safetensors file. Checks every header: ranges inside their files, apart, and of the size their shapes imply.
result<Checkpoint> open_checkpoint(const std::string& path);

}  // namespace fourfold
