// TeamCache: keys and values of every layer as leaves of 64 absolute positions (simd/kernels.hpp). Leaf i of all
// layers and heads lies together, [leaf][layer][head], so that memory is touched as positions fill, whole huge pages
// at a time.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "cpu/simd/kernels.hpp"
#include "cpu/team/weights.hpp"

namespace fourfold::team {

inline simd::KvShape kv_shape(const CacheSpec& spec) { return {spec.head_dim, spec.values(), spec.keys_only}; }

class TeamCache {
 public:
  static result<TeamCache> create(const Program& program, Storage type, int context);

  Storage type() const { return type_; }
  // The leaf of one layer's kv head that holds `position`; the next 64 positions' leaf is `stride` bytes on.
  std::uint8_t* leaf(int cache, int head, int position) const {
    const Layer& layer = layers_[static_cast<std::size_t>(cache)];
    return memory_.data() + stride_ * static_cast<std::size_t>(position / simd::kLeafKeys) + layer.offset +
           layer.leaf_bytes * static_cast<std::size_t>(head);
  }
  std::size_t stride() const { return stride_; }
  simd::KvShape shape(int cache) const { return layers_[static_cast<std::size_t>(cache)].shape; }
  std::size_t bytes() const { return memory_.size(); }

  void save(std::ostream& out, int positions) const;
  bool load(std::istream& in, int positions);
  // Key and value of one position as the cache holds them; of keys only, the key.
  void read(int cache, int position, int head, float* key, float* value) const;

 private:
  struct Layer {
    simd::KvShape shape;
    std::size_t leaf_bytes, offset;
  };
  std::size_t used(int positions) const {
    return stride_ * static_cast<std::size_t>((positions + simd::kLeafKeys - 1) / simd::kLeafKeys);
  }

  Storage type_ = Storage::f16;
  std::size_t stride_ = 0;
  Mapping memory_;
  std::vector<Layer> layers_;
};

}  // namespace fourfold::team
