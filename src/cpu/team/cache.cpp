#include "cpu/team/cache.hpp"

#include <istream>
#include <ostream>

#include "fourfold/blocks.hpp"

namespace fourfold::team {

result<TeamCache> TeamCache::create(const Program& program, Storage type, int context) {
  TeamCache cache;
  cache.type_ = type;
  for (const CacheSpec& spec : program.caches) {
    const std::size_t leaf = simd::kv_leaf_bytes(type, spec.head_dim);
    cache.layers_.push_back({spec.head_dim, leaf, cache.stride_});
    cache.stride_ += leaf * static_cast<std::size_t>(spec.kv_heads);
  }
  auto memory = Mapping::create(cache.used(context));
  if (!memory.ok()) return memory.error();
  cache.memory_ = std::move(memory).value();
  return cache;
}

void TeamCache::save(std::ostream& out, int positions) const {
  out.write(reinterpret_cast<const char*>(memory_.data()), static_cast<std::streamsize>(used(positions)));
}

bool TeamCache::load(std::istream& in, int positions) {
  in.read(reinterpret_cast<char*>(memory_.data()), static_cast<std::streamsize>(used(positions)));
  return in.good();
}

void TeamCache::read(int cache, int position, int head, float* key, float* value) const {
  const std::uint8_t* bytes = leaf(cache, head, position);
  const int d = layers_[static_cast<std::size_t>(cache)].head_dim, padded = (d + 15) / 16 * 16;
  const int slot = position % simd::kLeafKeys;
  if (type_ == Storage::q8_0) {
    const std::uint8_t* scales = bytes + static_cast<std::size_t>(2 * d) * simd::kLeafKeys;
    const auto* quants = reinterpret_cast<const std::int8_t*>(bytes);
    for (int i = 0; i < d; ++i) {
      const int key_scale = i / 32 * simd::kLeafKeys + slot;
      const int value_scale = d / 32 * simd::kLeafKeys + slot * (d / 32) + i / 32;
      key[i] = blocks::F16::at(scales + 2 * key_scale, 0) * static_cast<float>(quants[i * simd::kLeafKeys + slot]);
      value[i] = blocks::F16::at(scales + 2 * value_scale, 0) *
                 static_cast<float>(quants[(d * simd::kLeafKeys) + slot * d + i]);
    }
    return;
  }
  const int size = info(type_).block_bytes;
  for (int i = 0; i < d; ++i) {
    key[i] = decode(type_, bytes + static_cast<std::ptrdiff_t>(i * simd::kLeafKeys + slot) * size, 0);
    value[i] = decode(type_, bytes + static_cast<std::ptrdiff_t>(d * simd::kLeafKeys + slot * padded + i) * size, 0);
  }
}

}  // namespace fourfold::team
