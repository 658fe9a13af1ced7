#include "engine/checkpoint_bytes.hpp"

#include "engine/checkpoint_parts.hpp"

namespace fourfold {

status CheckpointBytes::read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  if (tensor.parts.empty()) return checkpoint_.read(*checkpoint_.find(tensor.name), offset, out);
  if (tensor.layout == TensorLayout::turned) return read_turned(checkpoint_, tensor, offset, out);
  return read_parts(checkpoint_, tensor, offset, out);
}

}  // namespace fourfold
