// Weights of the reference executor: the file's own bytes, decoded element by element (blocks.hpp).
#pragma once

#include <cstddef>
#include <vector>

#include "fourfold/blocks.hpp"
#include "program/backend.hpp"

namespace fourfold {

class ReferenceWeights {
 public:
  static result<ReferenceWeights> load(const Program& program, const WeightBytes& bytes) {
    ReferenceWeights w;
    w.specs_ = program.tensors;
    for (const TensorSpec& spec : program.tensors) {
      w.bytes_.emplace_back(static_cast<std::size_t>(spec.bytes()));
      FOURFOLD_TRY(bytes.read(spec, 0, w.bytes_.back()));
    }
    return w;
  }

  // Row `row` of a weight, decoded: cols numbers, `add` included.
  template <class T>
  void row(Weight weight, std::int64_t row, std::vector<T>& out) const {
    const TensorSpec& spec = specs_[static_cast<std::size_t>(weight.id)];
    const auto& storage = info(spec.storage);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(bytes_[static_cast<std::size_t>(weight.id)].data()) +
                        row * (spec.cols / storage.block_elements) * storage.block_bytes;
    out.resize(static_cast<std::size_t>(spec.cols));
    with_storage(spec.storage, [&](auto block) {
      for (std::int64_t i = 0; i < spec.cols; ++i)
        out[static_cast<std::size_t>(i)] =
            static_cast<T>(block.at(bytes + i / storage.block_elements * storage.block_bytes,
                                    static_cast<int>(i % storage.block_elements))) +
            static_cast<T>(spec.add);
    });
  }
  template <class T>
  std::vector<T> vector(Weight weight) const {
    std::vector<T> out;
    if (weight.valid()) row(weight, 0, out);
    return out;
  }
  // Every row, one behind the other.
  template <class T>
  std::vector<T> all(Weight weight) const {
    std::vector<T> out, one;
    if (!weight.valid()) return out;
    const TensorSpec& spec = specs_[static_cast<std::size_t>(weight.id)];
    for (std::int64_t r = 0; r < spec.stack * spec.rows; ++r) {
      row(weight, r, one);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& b : bytes_) sum += b.size();
    return sum;
  }

 private:
  std::vector<TensorSpec> specs_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace fourfold
