// The header of one safetensors file.
#pragma once

#include <cstddef>
#include <fourfold/status.hpp>
#include <span>
#include <vector>

#include "formats/file.hpp"
#include "formats/tensor_info.hpp"

namespace fourfold {

// The tensors of a file in header order, offsets absolute, file = 0. Accepts exactly the headers whose tensors cover
// the data once, with sizes that shape and dtype imply (a dtype of unknown size is listed as it stands).
result<std::vector<TensorInfo>> read_safetensors(const File& file);

// The same for a whole file in memory; its messages do not begin with a file's name.
result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> file);

}  // namespace fourfold
