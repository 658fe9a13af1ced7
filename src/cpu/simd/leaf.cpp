// Moving positions in and out of leaves, byte by byte: pages smaller than a leaf, and files.
#include "cpu/simd/leaf.hpp"

#include <cstring>

namespace fourfold::simd {
namespace {

bool has_cache(Storage type, KvShape shape) {
  for (const int d : {shape.key, shape.value}) {
    if (d <= 0 || d > kMaxHeadDim) return false;
    if (type == Storage::q8_0 ? d % 32 != 0 : info(type).block_elements != 1) return false;
  }
  return true;
}

constexpr std::size_t kScale = 2;        // bytes of an f16
constexpr std::size_t kQuantBlock = 34;  // of a scale and 32 int8

std::size_t row_bytes(Storage type, int d) {
  const auto n = static_cast<std::size_t>(d);
  return type == Storage::q8_0 ? n / 32 * kQuantBlock : n * leaf_layout(type, {d, d}).size;
}

// Numbers of `runs` runs, `stride` bytes apart, each of which holds `size` bytes of a position: K's columns, V's rows.
struct Field {
  std::size_t at, runs, stride, size;

  std::size_t place(int slot, std::size_t run) const {
    return at + run * stride + static_cast<std::size_t>(slot) * size;
  }
};

// The fields of a leaf in the order of LeafLayout: K, its scales, V, its scales; a field without runs is not there.
struct Fields {
  Field all[4];

  Fields(Storage type, KvShape shape, int keys) {
    const LeafLayout at = leaf_layout(type, shape, keys);
    const auto count = static_cast<std::size_t>(keys);
    const std::size_t row = static_cast<std::size_t>(at.v_row) * at.size;
    const bool scaled = type == Storage::q8_0;
    const auto column = [&](std::size_t from, std::size_t runs, std::size_t size) {
      return Field{from, runs, count * size, size};
    };
    const auto scales = [&](int d) { return scaled ? static_cast<std::size_t>(d / 32) : 0; };
    if (shape.keys_only) {
      all[0] = column(0, 1, row);
      all[1] = column(at.k_scales, scaled ? 1 : 0, scales(shape.key) * kScale);
      all[2] = all[3] = column(0, 0, 0);
      return;
    }
    all[0] = column(0, static_cast<std::size_t>(shape.key), at.size);
    all[1] = column(at.k_scales, scales(shape.key), kScale);
    all[2] = column(at.v, 1, row);
    all[3] = column(at.v_scales, scaled ? 1 : 0, scales(shape.value) * kScale);
  }
};

// Calls move(leaf offset, row offset, bytes) for every piece of a position that lies in one stretch in both.
template <class Move>
void each_piece(Storage type, KvShape shape, int keys, int slot, Move&& move) {
  const Fields fields(type, shape, keys);
  const std::size_t size = leaf_layout(type, shape, keys).size;
  const auto numbers = [&](const Field& field, const Field& scales, int d, std::size_t row) {
    // Number i of a position: in run i of a column, or i numbers into a row.
    const auto place = [&](const Field& f, std::size_t i, std::size_t bytes) {
      return f.runs > 1 || f.size == bytes ? f.place(slot, i) : f.place(slot, 0) + i * bytes;
    };
    for (std::size_t i = 0; i < static_cast<std::size_t>(d); ++i) {
      const bool scaled = type == Storage::q8_0;
      if (scaled && i % 32 == 0) move(place(scales, i / 32, kScale), row + i / 32 * kQuantBlock, kScale);
      move(place(field, i, size), scaled ? row + i / 32 * kQuantBlock + kScale + i % 32 : row + i * size, size);
    }
  };
  numbers(fields.all[0], fields.all[1], shape.key, 0);
  if (!shape.keys_only) numbers(fields.all[2], fields.all[3], shape.value, row_bytes(type, shape.key));
}

}  // namespace

std::size_t kv_leaf_bytes(Storage type, KvShape shape) {
  return has_cache(type, shape) ? (leaf_layout(type, shape).bytes + 63) / 64 * 64 : 0;
}

std::size_t kv_part_bytes(Storage type, KvShape shape, int keys) {
  return has_cache(type, shape) ? leaf_layout(type, shape, keys).bytes : 0;
}

void kv_copy(Storage type, KvShape shape, int keys, const std::uint8_t* from, int from_keys, int from_slot,
             std::uint8_t* to, int to_keys, int to_slot) {
  const Fields source(type, shape, from_keys), target(type, shape, to_keys);
  for (std::size_t f = 0; f < std::size(source.all); ++f)
    for (std::size_t run = 0; run < source.all[f].runs; ++run)
      std::memcpy(to + target.all[f].place(to_slot, run), from + source.all[f].place(from_slot, run),
                  static_cast<std::size_t>(keys) * source.all[f].size);
}

std::size_t kv_row_bytes(Storage type, KvShape shape) {
  return row_bytes(type, shape.key) + (shape.keys_only ? 0 : row_bytes(type, shape.value));
}

void kv_read_row(Storage type, KvShape shape, const std::uint8_t* leaf, int keys, int slot, std::uint8_t* row) {
  each_piece(type, shape, keys, slot, [&](std::size_t in_leaf, std::size_t in_row, std::size_t bytes) {
    std::memcpy(row + in_row, leaf + in_leaf, bytes);
  });
}

void kv_write_row(Storage type, KvShape shape, const std::uint8_t* row, std::uint8_t* leaf, int keys, int slot) {
  each_piece(type, shape, keys, slot, [&](std::size_t in_leaf, std::size_t in_row, std::size_t bytes) {
    std::memcpy(leaf + in_leaf, row + in_row, bytes);
  });
}

}  // namespace fourfold::simd
