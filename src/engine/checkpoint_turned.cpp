// Weights that a file holds transposed, one matrix of a stack at a time. Limit: the processor, one number at a time.
#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/checkpoint_parts.hpp"
#include "fourfold/blocks.hpp"

namespace fourfold {
namespace {

// `file` rows of n numbers -> n rows, in `to`: numbers as they are, those of blocks as float32.
void turn(const std::byte* file, std::int64_t rows, std::int64_t n, Storage from, Storage to, std::byte* out) {
  const auto& block = info(from);
  const auto size = static_cast<std::size_t>(info(to).block_bytes);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      const std::byte* at = file + (r * n + c) / block.block_elements * block.block_bytes;
      std::byte* number = out + static_cast<std::size_t>(c * rows + r) * size;
      if (from == to) {
        std::memcpy(number, at, size);
      } else {
        const float x =
            decode(from, reinterpret_cast<const std::uint8_t*>(at), static_cast<int>(c % block.block_elements));
        std::memcpy(number, &x, sizeof x);
      }
    }
}

}  // namespace

status read_turned(const Checkpoint& checkpoint, const TensorSpec& tensor, std::uint64_t offset,
                   std::span<std::byte> out) {
  const auto size = static_cast<std::uint64_t>(tensor.rows * tensor.row_bytes());
  std::vector<std::byte> stored, matrix(size);
  while (!out.empty()) {
    const TensorRows& part = tensor.parts[offset / size];
    const TensorInfo& file = *checkpoint.find(part.tensor);
    const auto& block = info(*file.storage);
    const std::int64_t row = tensor.rows / block.block_elements * block.block_bytes;
    stored.resize(static_cast<std::size_t>(part.count * row));
    FOURFOLD_TRY(checkpoint.read(file, static_cast<std::uint64_t>(part.first * row), stored));
    turn(stored.data(), part.count, tensor.rows, *file.storage, tensor.storage, matrix.data());
    const std::uint64_t within = offset % size, n = std::min<std::uint64_t>(size - within, out.size());
    std::memcpy(out.data(), matrix.data() + within, n);
    out = out.subspan(n);
    offset += n;
  }
  return {};
}

}  // namespace fourfold
