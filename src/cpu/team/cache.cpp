#include "cpu/team/cache.hpp"

#include <algorithm>
#include <cstring>

#include "fourfold/blocks.hpp"

namespace fourfold::team {

using simd::kBlockKeys, simd::kLeafKeys;

std::vector<PageShape> TeamCache::place(const Program& program, const PlanOptions& options) {
  type_ = options.cache;
  keys_ = std::min(options.page, kLeafKeys);
  std::vector<PageShape> shapes;
  for (const CacheSpec& spec : program.caches) {
    auto shape =
        std::find_if(shapes.begin(), shapes.end(), [&](const PageShape& s) { return s.window == spec.window; });
    if (shape == shapes.end())
      shape = shapes.insert(shape, {options.context, options.page, spec.window, options.batch, keys_, 0});
    const std::size_t part = keys_ == kLeafKeys ? simd::kv_leaf_bytes(type_, kv_shape(spec))
                                                : simd::kv_part_bytes(type_, kv_shape(spec), keys_);
    layers_.push_back(
        {spec.kv_heads, kv_shape(spec), static_cast<std::size_t>(shape - shapes.begin()), part, shape->part_bytes});
    shape->part_bytes += part * static_cast<std::size_t>(spec.kv_heads);
  }
  return shapes;
}

std::size_t TeamCache::bytes_at(const Program& program, const PlanOptions& options, int positions) {
  std::size_t sum = 0;
  for (const PageShape& shape : TeamCache().place(program, options))
    sum += shape.page_bytes() * static_cast<std::size_t>(shape.held_pages(positions));
  return sum;
}

result<TeamCache> TeamCache::create(const Program& program, const PlanOptions& options) {
  TeamCache cache;
  for (const PageShape& shape : cache.place(program, options)) {
    auto pages = PageList::create(shape);
    if (!pages.ok()) return pages.error();
    cache.groups_.push_back(std::move(pages).value());
  }
  return cache;
}

result<TeamCache> TeamCache::fork() const {
  TeamCache copy;
  copy.type_ = type_;
  copy.keys_ = keys_;
  copy.layers_ = layers_;
  for (const PageList& pages : groups_) {
    auto forked = pages.fork();
    if (!forked.ok()) return forked.error();
    copy.groups_.push_back(std::move(forked).value());
  }
  return copy;
}

status TeamCache::prepare(int position, int tokens) {
  for (PageList& pages : groups_) FOURFOLD_TRY(pages.prepare(position, tokens));
  return {};
}

bool TeamCache::rewind(int position) {
  bool held = true;
  for (PageList& pages : groups_) held = pages.rewind(position) && held;
  if (held) return true;
  for (PageList& pages : groups_) pages.rewind(0);
  return false;
}

status TeamCache::jump(int position) {
  for (PageList& pages : groups_) FOURFOLD_TRY(pages.jump(position));
  return {};
}

TeamCache::Leaves TeamCache::leaves(int cache, int head, int block, int first, int last, Scratch& scratch) const {
  const Layer& layer = layers_[static_cast<std::size_t>(cache)];
  const std::size_t offset = layer.offset + layer.part_bytes * static_cast<std::size_t>(head);
  const PageList& pages = group(cache);
  constexpr int kLeaves = kBlockKeys / kLeafKeys;
  if (keys_ == kLeafKeys) return {pages.parts() + std::ptrdiff_t{block} * kLeaves, offset};
  const std::size_t leaf = simd::kv_leaf_bytes(type_, layer.shape);
  scratch.bytes.resize(std::max(scratch.bytes.size(), kLeaves * leaf + kLeafKeys));
  scratch.leaves.assign(kLeaves + 1, nullptr);
  const auto address = reinterpret_cast<std::uintptr_t>(scratch.bytes.data());
  std::uint8_t* const base = scratch.bytes.data() + ((address + 63) / 64 * 64 - address);
  for (int i = 0; i < kLeaves; ++i)
    scratch.leaves[static_cast<std::size_t>(i)] = base + static_cast<std::size_t>(i) * leaf;
  for (int key = first / keys_ * keys_; key < last; key += keys_)
    simd::kv_copy(type_, layer.shape, keys_, pages.part(block * kBlockKeys + key) + offset, keys_, 0,
                  base + static_cast<std::size_t>(key / kLeafKeys) * leaf, kLeafKeys, key % kLeafKeys);
  return {scratch.leaves.data(), 0};
}

std::size_t TeamCache::held_bytes() const {
  std::size_t sum = 0;
  for (const PageList& pages : groups_) sum += pages.held_bytes();
  return sum;
}

std::size_t TeamCache::row_bytes(int cache) const {
  const Layer& layer = layers_[static_cast<std::size_t>(cache)];
  return simd::kv_row_bytes(type_, layer.shape) * static_cast<std::size_t>(layer.heads);
}

void TeamCache::read_rows(int cache, int first, int count, std::byte* out) const {
  const Layer& layer = layers_[static_cast<std::size_t>(cache)];
  auto* row = reinterpret_cast<std::uint8_t*>(out);
  for (int p = first; p < first + count; ++p)
    for (int head = 0; head < layer.heads; ++head, row += simd::kv_row_bytes(type_, layer.shape))
      simd::kv_read_row(type_, layer.shape, part(cache, head, p), keys_, p % keys_, row);
}

void TeamCache::write_rows(int cache, int first, int count, const std::byte* in) {
  const Layer& layer = layers_[static_cast<std::size_t>(cache)];
  const auto* row = reinterpret_cast<const std::uint8_t*>(in);
  for (int p = first; p < first + count; ++p)
    for (int head = 0; head < layer.heads; ++head, row += simd::kv_row_bytes(type_, layer.shape))
      simd::kv_write_row(type_, layer.shape, row, part(cache, head, p), keys_, p % keys_);
}

void TeamCache::read(int cache, int position, int head, float* key, float* value) const {
  const simd::KvShape shape = this->shape(cache);
  std::vector<std::uint8_t> row(simd::kv_row_bytes(type_, shape));
  if (group(cache).part(position) != nullptr)
    simd::kv_read_row(type_, shape, part(cache, head, position), keys_, position % keys_, row.data());
  const auto& storage = info(type_);
  const int count = shape.key + (shape.keys_only ? 0 : shape.value);
  for (int i = 0; i < count; ++i)
    (i < shape.key ? key[i] : value[i - shape.key]) =
        decode(type_, row.data() + i / storage.block_elements * storage.block_bytes, i % storage.block_elements);
}

}  // namespace fourfold::team
