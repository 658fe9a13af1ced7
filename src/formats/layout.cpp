#include "formats/layout.hpp"

#include <algorithm>
#include <limits>

#include "formats/message.hpp"

namespace fourfold {

status count_elements(std::span<const std::int64_t> shape, std::uint64_t& elements) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, dimension, &product))
      return {Code::malformed, "its dimensions multiply to more than 2^63 - 1 elements"};
  }
  elements = empty ? 0 : static_cast<std::uint64_t>(product);
  return {};
}

status tensor_bytes(std::span<const std::int64_t> shape, std::uint64_t block_elements, std::uint64_t block_bytes,
                    std::uint64_t& bytes) {
  std::uint64_t elements = 0;
  FOURFOLD_TRY(count_elements(shape, elements));
  const std::uint64_t row = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
  if (row % block_elements != 0) {
    return {Code::malformed, "its rows of " + grouped(row) + " elements are not a multiple of the type's blocks of " +
                                 std::to_string(block_elements)};
  }
  const std::uint64_t blocks = elements / block_elements;
  if (__builtin_mul_overflow(blocks, block_bytes, &bytes) || bytes > std::numeric_limits<std::int64_t>::max())
    return {Code::malformed, "its " + grouped(elements) + " elements take more than 2^63 - 1 bytes"};
  return {};
}

status place_tensors(std::vector<TensorInfo>& tensors, std::uint64_t data, std::uint64_t file_size) {
  std::vector<const TensorInfo*> order;
  for (TensorInfo& tensor : tensors) {
    std::uint64_t end = 0;
    if (__builtin_add_overflow(tensor.offset, data, &tensor.offset) ||
        __builtin_add_overflow(tensor.offset, tensor.bytes, &end)) {
      return {Code::malformed, "tensor " + quote(tensor.name) + ": its offset and size add up to more than 2^64 bytes"};
    }
    if (end > file_size) {
      return {Code::malformed, "tensor " + quote(tensor.name) + ": data ends at byte " + grouped(end) +
                                   ", the file at " + grouped(file_size) + " (truncated?)"};
    }
    if (tensor.bytes > 0) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorInfo &before = *order[i - 1], &after = *order[i];
    if (after.offset - before.offset < before.bytes) {
      return {Code::malformed, "tensors " + quote(before.name) + " and " + quote(after.name) +
                                   " overlap: one ends at byte " + grouped(before.offset + before.bytes) +
                                   ", the other begins at " + grouped(after.offset)};
    }
  }
  return {};
}

}  // namespace fourfold
