// TeamCache: keys and values of one sequence, in pages that forks share until one of them writes.
//
// Caches that look equally far back share their pages. A page is a row of parts of 64 absolute positions, the leaves of
// simd/leaf.hpp, or is itself a part when it is smaller; a part is [cache][kv head]. So memory is touched as positions
// fill, whole huge pages at a time, and a window's pages come back when it has moved on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cpu/simd/kernels.hpp"
#include "cpu/team/pages.hpp"
#include "program/backend.hpp"

namespace fourfold::team {

inline simd::KvShape kv_shape(const CacheSpec& spec) { return {spec.head_dim, spec.values(), spec.keys_only}; }

class TeamCache {
 public:
  static result<TeamCache> create(const Program& program, const PlanOptions& options);
  // What the pages take when so many positions are written, the last one by itself.
  static std::size_t bytes_at(const Program& program, const PlanOptions& options, int positions);

  // Another sequence at the same position; no page is copied.
  result<TeamCache> fork() const;
  // See PageList: for all caches together.
  status prepare(int position, int tokens);
  bool rewind(int position);
  status jump(int position);

  Storage type() const { return type_; }
  int keys() const { return keys_; }  // positions of a part
  // The part of one cache's kv head that holds `position`, in the slot position % keys().
  std::uint8_t* part(int cache, int head, int position) const {
    const Layer& layer = layers_[static_cast<std::size_t>(cache)];
    return group(cache).part(position) + layer.offset + layer.part_bytes * static_cast<std::size_t>(head);
  }
  simd::KvShape shape(int cache) const { return layers_[static_cast<std::size_t>(cache)].shape; }
  // What attention reads of a block of 1024 keys: where its leaves lie, and how far on the kv head's are. Parts smaller
  // than a leaf are put together in `scratch` first, the positions [first, last) of the block.
  struct Leaves {
    const std::uint8_t* const* leaves;
    std::size_t offset;
  };
  struct Scratch {
    std::vector<std::uint8_t> bytes{};
    std::vector<const std::uint8_t*> leaves{};
  };
  Leaves leaves(int cache, int head, int block, int first, int last, Scratch& scratch) const;

  std::size_t held_bytes() const;
  int oldest_needed(int cache, int position) const { return group(cache).shape().oldest_needed(position); }

  // Positions as rows, [position][kv head] of simd::kv_read_row.
  std::size_t row_bytes(int cache) const;
  void read_rows(int cache, int first, int count, std::byte* out) const;
  void write_rows(int cache, int first, int count, const std::byte* in);
  // Copies one position of a kv head to a slot of a leaf.
  void copy_position(int cache, int head, int position, std::uint8_t* leaf, int slot) const {
    simd::kv_copy(type_, shape(cache), 1, part(cache, head, position), keys_, position % keys_, leaf, simd::kLeafKeys,
                  slot);
  }
  // Key and value of one position as the cache holds them, of keys only the key; 0 where a window has moved on.
  void read(int cache, int position, int head, float* key, float* value) const;

 private:
  struct Layer {
    int heads;
    simd::KvShape shape;
    std::size_t group, part_bytes, offset;
  };
  // Places the caches in their groups' parts; returns the pages of each group.
  std::vector<PageShape> place(const Program& program, const PlanOptions& options);
  const PageList& group(int cache) const { return groups_[layers_[static_cast<std::size_t>(cache)].group]; }

  Storage type_ = Storage::f16;
  int keys_ = simd::kLeafKeys;
  std::vector<Layer> layers_;
  std::vector<PageList> groups_;
};

}  // namespace fourfold::team
