// Opening a safetensors model: which files hold the weights, and config.json beside them.
#include <filesystem>
#include <map>
#include <set>

#include "formats/contents.hpp"
#include "formats/message.hpp"
#include "formats/safetensors.hpp"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestJson = std::uint64_t{32} << 20;
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kMapPrefix = "weight_map.";

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

result<Metadata> read_json(const fs::path& path) {
  const auto text = read_text(path, kLargestJson);
  if (!text) return text.error();
  return metadata_from_json(*text, path.filename());
}

status add_file(Contents& all, const fs::path& path) {
  auto file = File::open(path);
  if (!file) return file.error();
  auto tensors = read_safetensors(*file);
  if (!tensors) return tensors.error();
  for (TensorInfo& tensor : *tensors) {
    tensor.file = static_cast<int>(all.files.size());
    all.tensors.push_back(std::move(tensor));
  }
  all.files.push_back(std::move(*file));
  return {};
}

// The index's file names by tensor name. A file has to lie in the folder itself.
result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  const auto index = read_json(path);
  if (!index) return index.error();
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : index->entries()) {
    if (!key.starts_with(kMapPrefix)) continue;
    const auto* name = std::get_if<std::string_view>(&value);
    if (name == nullptr || name->find('/') != std::string_view::npos || !name->ends_with(".safetensors")) {
      const std::string met = name == nullptr ? std::string(type_of(value)) : quote(*name);
      return in_file(path.filename().string(), {Code::malformed, "key " + quote(key) + " is " + met +
                                                                     "; expected a .safetensors file of the folder"});
    }
    map.emplace(key.substr(kMapPrefix.size()), *name);
  }
  if (map.empty()) return in_file(path.filename().string(), {Code::malformed, "its 'weight_map' is missing or empty"});
  return map;
}

status add_indexed(Contents& all, const fs::path& folder) {
  const auto map = read_index(folder / kIndexName);
  if (!map) return map.error();
  std::set<std::string> names;
  for (const auto& [tensor, file] : *map) names.insert(file);
  for (const std::string& name : names) FOURFOLD_TRY(add_file(all, folder / name));

  std::map<std::string_view, std::size_t> files;
  for (const TensorInfo& tensor : all.tensors) {
    const auto file = static_cast<std::size_t>(tensor.file);
    if (!files.emplace(tensor.name, file).second) {
      return in_file(all.files[file].name(),
                     {Code::malformed, "tensor " + quote(tensor.name) + " is in an earlier file too"});
    }
  }
  for (const auto& [tensor, file] : *map) {
    const auto at = files.find(tensor);
    if (at == files.end() || all.files[at->second].name() != file) {
      return in_file(std::string(kIndexName),
                     {Code::malformed, "tensor " + quote(tensor) + " is not in its file " + quote(file)});
    }
  }
  return {};
}

// The weights of a folder; one without any is good for its metadata and its tokenizer.
status add_folder(Contents& all, const fs::path& folder) {
  if (has_file(folder / kSingleName)) return add_file(all, folder / kSingleName);
  if (has_file(folder / kIndexName)) return add_indexed(all, folder);
  std::error_code error;
  bool known = false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    known = known || name == "config.json" || name == "tokenizer.json";
    if (!name.ends_with(".safetensors")) continue;
    return in_file(base_name(folder),
                   {Code::not_found, "the folder holds " + quote(name) + "; expected '" + std::string(kSingleName) +
                                         "' or '" + std::string(kIndexName) + "'"});
  }
  if (error) return {Code::io, "cannot read the folder " + quote(folder.string()) + ": " + error.message()};
  if (known) return {};
  return in_file(base_name(folder), {Code::not_found, "the folder holds no model; expected config.json and '" +
                                                          std::string(kSingleName) + "' or its index"});
}

}  // namespace

result<Contents> open_safetensors(const std::string& path) {
  std::error_code ignored;
  Contents all;
  fs::path folder = path;
  if (fs::is_directory(path, ignored)) {
    FOURFOLD_TRY(add_folder(all, folder));
  } else {
    FOURFOLD_TRY(add_file(all, folder));
    folder = folder.parent_path();
  }
  if (!has_file(folder / "config.json")) return all;
  auto config = read_json(folder / "config.json");
  if (!config) return config.error();
  all.metadata = std::move(*config);
  return all;
}

}  // namespace fourfold
