// config.json of any family from any bytes, beside tensors of other names: no crash, no size that overflows, and a
// message that says what is wrong.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "formats/checkpoint.hpp"
#include "models/family.hpp"

using namespace fourfold;

namespace {

class Folder {
 public:
  Folder() {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
    write("model.safetensors", tensors());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const char* name, std::string_view bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  // Empty ones, enough for some layers.
  static std::string tensors() {
    std::string header;
    for (int i = 0; i < 64; ++i)
      header +=
          (i == 0 ? "{\"t" : ",\"t") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
    header += "}";
    std::string file(sizeof(std::uint64_t), '\0');
    for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
    return file + header;
  }

  std::string path_ = std::filesystem::temp_directory_path() / "fuzz_config.XXXXXX";
};

void require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  folder.write("config.json", {reinterpret_cast<const char*>(data), size});
  const auto file = open_checkpoint(folder.path());
  require(file.ok() || !file.error().message().empty());
  if (!file) return 0;
  const auto model = read_model(*file);
  require(!model.ok() && !model.error().message().empty());
  return 0;
}
