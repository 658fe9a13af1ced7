// Golden: a named array of a safetensors file with stored results, as numbers; and how far results are from it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace fourfold::test {

class Golden {
 public:
  explicit Golden(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    std::uint64_t size = 0;
    std::memcpy(&size, bytes_.data(), sizeof size);
    header_ = nlohmann::json::parse(bytes_.substr(8, size));
    data_ = 8 + size;
  }
  bool has(const std::string& name) const { return header_.contains(name); }
  std::vector<float> floats(const std::string& name) const { return read<float, float>(name); }
  std::vector<int> integers(const std::string& name) const {
    return header_.at(name).at("dtype") == "I64" ? read<std::int64_t, int>(name) : read<std::int32_t, int>(name);
  }

 private:
  template <class Stored, class T>
  std::vector<T> read(const std::string& name) const {
    const auto& range = header_.at(name).at("data_offsets");
    const std::size_t begin = range[0], end = range[1];
    std::vector<Stored> stored((end - begin) / sizeof(Stored));
    std::memcpy(stored.data(), bytes_.data() + data_ + begin, end - begin);
    return {stored.begin(), stored.end()};
  }

  std::string bytes_;
  nlohmann::json header_;
  std::size_t data_ = 0;
};

// Root mean square of the differences over that of `expected`; infinite when the lengths differ.
inline double relative_rms(std::span<const float> got, std::span<const float> expected) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x = expected[i], d = static_cast<double>(got[i]) - x;
    off += d * d;
    size += x * x;
  }
  return got.size() == expected.size() ? std::sqrt(off / size) : INFINITY;
}

}  // namespace fourfold::test
