// Weights whose rows are spread over a file's tensors: some rows at a time are read as the file has them, then put into
// the weight's own layout. Limit: the file's bandwidth; interleaved rows are read with what lies between them.
#include "engine/checkpoint_parts.hpp"

#include <algorithm>
#include <cstring>

namespace fourfold {
namespace {

constexpr std::int64_t kGroupBytes = 256 << 10;  // converted at a time

// The part that holds row `row`, which becomes a row of that part.
const TensorRows& part_of(const TensorSpec& tensor, std::int64_t& row) {
  auto part = tensor.parts.begin();
  for (; row >= part->count; ++part) row -= part->count;
  return *part;
}

// gpt-oss's byte j holds elements 2j and 2j + 1; the storage's holds j and j + 16.
void repack_pairs(const std::byte* pairs, std::byte scale, std::byte* block) {
  const auto element = [&](int i) { return (pairs[i / 2] >> (4 * (i % 2))) & std::byte{15}; };
  block[0] = scale;
  for (int j = 0; j < 16; ++j) block[1 + j] = element(j) | element(j + 16) << 4;
}

status read_rows(const Checkpoint& checkpoint, const TensorSpec& tensor, const TensorRows& part, std::int64_t first,
                 std::int64_t count, std::byte* out) {
  const TensorInfo& file = *checkpoint.find(part.tensor);
  const auto size = static_cast<std::size_t>(tensor.row_bytes());
  const auto start = static_cast<std::uint64_t>(part.first + first * part.stride) * size;
  if (part.stride == 1) return checkpoint.read(file, start, {out, static_cast<std::size_t>(count) * size});
  std::vector<std::byte> span(static_cast<std::size_t>((count - 1) * part.stride + 1) * size);
  FOURFOLD_TRY(checkpoint.read(file, start, span));
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(out + static_cast<std::size_t>(i) * size,
                span.data() + static_cast<std::size_t>(i * part.stride) * size, size);
  return {};
}

// The file's matrices are [cols, rows]: a run of rows is gathered column by column.
status read_columns(const Checkpoint& checkpoint, const TensorSpec& tensor, const TensorRows& part, std::int64_t first,
                    std::int64_t count, std::byte* out) {
  const TensorInfo& file = *checkpoint.find(part.tensor);
  const auto size = static_cast<std::size_t>(info(tensor.storage).block_bytes);
  const std::int64_t rows = file.shape.back(), start = part.first + first * part.stride;
  std::vector<std::byte> run(static_cast<std::size_t>((count - 1) * part.stride + 1) * size);
  for (std::int64_t c = 0; c < tensor.cols; ++c) {
    const std::int64_t at = (start / rows * tensor.cols + c) * rows + start % rows;
    FOURFOLD_TRY(checkpoint.read(file, static_cast<std::uint64_t>(at) * size, run));
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(out + static_cast<std::size_t>(i * tensor.cols + c) * size,
                  run.data() + static_cast<std::size_t>(i * part.stride) * size, size);
  }
  return {};
}

status read_pairs(const Checkpoint& checkpoint, const TensorSpec& tensor, const TensorRows& part, std::int64_t first,
                  std::int64_t count, std::byte* out) {
  const auto blocks = static_cast<std::size_t>(tensor.cols / 32),
             span = static_cast<std::size_t>((count - 1) * part.stride + 1);
  std::vector<std::byte> pairs(span * blocks * 16), scales(span * blocks);
  const auto start = static_cast<std::uint64_t>(part.first + first * part.stride) * blocks;
  FOURFOLD_TRY(checkpoint.read_raw(*checkpoint.find(part.tensor + "_blocks"), start * 16, pairs));
  FOURFOLD_TRY(checkpoint.read_raw(*checkpoint.find(part.tensor + "_scales"), start, scales));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t from = i * static_cast<std::size_t>(part.stride) * blocks + b;
      repack_pairs(pairs.data() + from * 16, scales[from], out + (i * blocks + b) * 17);
    }
  return {};
}

}  // namespace

status read_parts(const Checkpoint& checkpoint, const TensorSpec& tensor, std::uint64_t offset,
                  std::span<std::byte> out) {
  const std::int64_t row_bytes = tensor.row_bytes();
  std::vector<std::byte> group;
  for (auto row = static_cast<std::int64_t>(offset) / row_bytes; !out.empty();) {
    std::int64_t within = row;
    const TensorRows& part = part_of(tensor, within);
    const std::int64_t skip = static_cast<std::int64_t>(offset) - row * row_bytes;
    const std::int64_t wanted = (skip + static_cast<std::int64_t>(out.size()) + row_bytes - 1) / row_bytes;
    const std::int64_t most = std::max<std::int64_t>(1, kGroupBytes / row_bytes);
    const std::int64_t count = std::min({part.count - within, wanted, most});
    group.resize(static_cast<std::size_t>(count * row_bytes));
    FOURFOLD_TRY((tensor.layout == TensorLayout::rows ? read_rows(checkpoint, tensor, part, within, count, group.data())
                  : tensor.layout == TensorLayout::columns
                      ? read_columns(checkpoint, tensor, part, within, count, group.data())
                      : read_pairs(checkpoint, tensor, part, within, count, group.data())));
    const std::size_t n = std::min(out.size(), group.size() - static_cast<std::size_t>(skip));
    std::memcpy(out.data(), group.data() + skip, n);
    out = out.subspan(n);
    offset += n;
    row += count;
  }
  return {};
}

}  // namespace fourfold
