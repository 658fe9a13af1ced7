#include "cpu/team/cache.hpp"

#include <istream>
#include <ostream>

#include "fourfold/blocks.hpp"

namespace fourfold::team {

result<TeamCache> TeamCache::create(const Program& program, Storage type, int context) {
  TeamCache cache;
  cache.type_ = type;
  for (const CacheSpec& spec : program.caches) {
    const simd::KvShape shape = kv_shape(spec);
    const std::size_t leaf = simd::kv_leaf_bytes(type, shape);
    cache.layers_.push_back({shape, leaf, cache.stride_});
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
  const simd::KvShape shape = this->shape(cache);
  const int slot = position % simd::kLeafKeys, size = type_ == Storage::q8_0 ? 1 : info(type_).block_bytes;
  const auto scale = [&](const std::uint8_t* scales, int i) {
    return type_ == Storage::q8_0 ? blocks::F16::at(scales + 2 * i, 0) : 1.0f;
  };
  const auto number = [&](const std::uint8_t* numbers, int i) {
    return type_ == Storage::q8_0 ? static_cast<float>(reinterpret_cast<const std::int8_t*>(numbers)[i])
                                  : decode(type_, numbers + std::ptrdiff_t{i} * size, 0);
  };
  const auto read_row = [&](const std::uint8_t* rows, int d, float* out) {
    const int stride = (d + 15) / 16 * 16;
    const std::uint8_t* scales = rows + static_cast<std::ptrdiff_t>(simd::kLeafKeys) * stride * size;
    for (int i = 0; i < d; ++i) out[i] = scale(scales, slot * (d / 32) + i / 32) * number(rows, slot * stride + i);
  };
  if (shape.keys_only) return read_row(bytes, shape.key, key);
  const std::uint8_t* scales = bytes + static_cast<std::ptrdiff_t>(simd::kLeafKeys) * shape.key * size;
  for (int i = 0; i < shape.key; ++i)
    key[i] = scale(scales, i / 32 * simd::kLeafKeys + slot) * number(bytes, i * simd::kLeafKeys + slot);
  const int key_scales = type_ == Storage::q8_0 ? 2 * simd::kLeafKeys * (shape.key / 32) : 0;
  read_row(scales + key_scales, shape.value, value);
}

}  // namespace fourfold::team
