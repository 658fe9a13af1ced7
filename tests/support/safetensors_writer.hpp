// SafetensorsWriter: the bytes of a safetensors file; safetensors_file() makes one from any header text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/gguf_writer.hpp"

namespace fourfold::test {

inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return raw<std::uint64_t>(header.size()) + std::string(header) + std::string(data);
}

class SafetensorsWriter {
 public:
  SafetensorsWriter& tensor(std::string_view name, std::string_view dtype, const std::vector<int>& shape,
                            std::string_view data) {
    std::string dims;
    for (const int d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    header_ += header_.size() > 1 ? "," : "";
    header_ += "\"" + std::string(name) + R"(":{"dtype":")" + std::string(dtype) + R"(","shape":[)" + dims +
               R"(],"data_offsets":[)" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + data.size()) + "]}";
    data_ += data;
    return *this;
  }
  std::string bytes() const { return safetensors_file(header_ + "}", data_); }

 private:
  std::string header_ = "{";
  std::string data_;
};

}  // namespace fourfold::test
