#include "npy.hpp"

namespace fourfold::cli {

std::string npy_header(std::size_t rows, std::size_t columns) {
  constexpr std::size_t kPreamble = 10, kAlign = 64;
  std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                           std::to_string(columns) + "), }";
  const std::size_t size = (kPreamble + dictionary.size() + 1 + kAlign - 1) / kAlign * kAlign;
  dictionary.resize(size - kPreamble - 1, ' ');
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

}  // namespace fourfold::cli
