// The .npy format, version 1.0: a header that numpy.load reads, then the numbers row by row.
#pragma once

#include <cstddef>
#include <string>

namespace fourfold::cli {

// The header of a little-endian float32 array [rows, columns].
std::string npy_header(std::size_t rows, std::size_t columns);

}  // namespace fourfold::cli
