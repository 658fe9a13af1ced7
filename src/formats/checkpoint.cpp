#include "formats/checkpoint.hpp"

#include <filesystem>

#include "formats/message.hpp"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestSideFile = std::uint64_t{128} << 20;

// A folder and *.safetensors are told by name, the rest has to begin as GGUF does.
Checkpoint::Format format_of(const std::string& path) {
  std::error_code ignored;
  const bool safetensors = fs::is_directory(path, ignored) || path.ends_with(".safetensors");
  return safetensors ? Checkpoint::Format::safetensors : Checkpoint::Format::gguf;
}

}  // namespace

Checkpoint::Checkpoint(Format format, std::string path, Contents contents)
    : format_(format), path_(std::move(path)), contents_(std::move(contents)) {
  index_.reserve(contents_.tensors.size());
  for (std::size_t i = 0; i < contents_.tensors.size(); ++i) index_.emplace(contents_.tensors[i].name, i);
}

std::string Checkpoint::name() const { return base_name(path_); }

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &contents_.tensors[at->second];
}

status Checkpoint::read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  if (tensor.storage) return read_raw(tensor, offset, out);
  return {Code::unsupported, contents_.files[static_cast<std::size_t>(tensor.file)].name() + ": tensor " +
                                 quote(tensor.name) + " is stored as " + tensor.type_name +
                                 ", which this version cannot read"};
}

status Checkpoint::read_raw(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  const File& file = contents_.files[static_cast<std::size_t>(tensor.file)];
  const std::string where = "tensor " + quote(tensor.name);
  if (offset > tensor.bytes || out.size() > tensor.bytes - offset) {
    return {Code::invalid_argument, file.name() + ": " + where + ": " + grouped(out.size()) + " bytes from byte " +
                                        grouped(offset) + " reach beyond its " + grouped(tensor.bytes)};
  }
  const status done = file.read_at(tensor.offset + offset, out);
  return done.ok() ? done : status(done.code(), done.message() + " (reading " + where + ")");
}

std::uint64_t Checkpoint::file_bytes() const {
  std::uint64_t sum = 0;
  for (const File& file : contents_.files) sum += file.size();
  return sum;
}

result<std::string> Checkpoint::side_file(std::string_view name) const {
  if (name.empty() || name.find('/') != std::string_view::npos)
    return status(Code::invalid_argument, "a side file's name is " + quote(name) + "; expected a name without '/'");
  if (format_ == Format::gguf)
    return status(Code::not_found, this->name() + ": a GGUF model has no file " + quote(name) + " beside it");
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path_, ignored) ? fs::path(path_) : fs::path(path_).parent_path();
  return read_text(folder / name, kLargestSideFile);
}

result<Checkpoint> open_checkpoint(const std::string& path) {
  const auto format = format_of(path);
  auto contents = format == Checkpoint::Format::gguf ? open_gguf(path) : open_safetensors(path);
  if (!contents) return contents.error();
  const std::string_view key = format == Checkpoint::Format::gguf ? "general.architecture" : "model_type";
  const auto architecture = contents->metadata.get_string(key, "");
  if (!architecture) return architecture.error();
  std::string name(*architecture);
  Checkpoint checkpoint(format, path, std::move(*contents));
  checkpoint.architecture_ = std::move(name);
  return checkpoint;
}

}  // namespace fourfold
