// CacheLayout: where keys and values of one layer lie in device memory. One header for host and device.
//
// [kv head][leaf of 64 positions][keys, then values][panel of 64 dims][position][64 dims]: a leaf (16 KB of keys and as
// much of values for 128 dims of 16 bits) is one stretch, so one bulk copy brings it, and neighbouring leaves follow
// each other. Within a panel the 16-byte chunk c of a row stands at c xor (row's 128-byte line mod 8): the 128-byte
// swizzle of matrix instructions for 16-bit elements, free of bank conflicts for rows and columns alike. A position
// fills whole sectors: 64 dims of 16 bits are one 128-byte line. Dims beyond the head's are zeros.
#pragma once

#include <cstdint>

namespace fourfold::cuda {

inline constexpr int kLeafKeys = 64;   // positions of one leaf
inline constexpr int kPanelDims = 64;  // head dims are stored in whole panels
inline constexpr int kMostHeadDim = 256;

enum class Part : std::uint8_t { key, value };

struct CacheLayout {
  int kv_heads = 0;
  int head_dim = 0;       // 1 .. kMostHeadDim
  int element_bytes = 2;  // 2: bf16, f16; 1: fp8
  int positions = 0;      // that fit

  constexpr int stored_dim() const { return (head_dim + kPanelDims - 1) / kPanelDims * kPanelDims; }
  constexpr int leaves() const { return (positions + kLeafKeys - 1) / kLeafKeys; }
  constexpr int panel_bytes() const { return kLeafKeys * kPanelDims * element_bytes; }
  constexpr int part_bytes() const { return kLeafKeys * stored_dim() * element_bytes; }  // keys or values of a leaf
  constexpr int leaf_bytes() const { return 2 * part_bytes(); }
  constexpr std::int64_t head_bytes() const { return std::int64_t{leaves()} * leaf_bytes(); }
  constexpr std::int64_t bytes() const { return kv_heads * head_bytes(); }

  // Bytes from the layer's start to a leaf's keys or values.
  constexpr std::int64_t leaf(int head, int leaf, Part part) const {
    return head * head_bytes() + std::int64_t{leaf} * leaf_bytes() + (part == Part::value ? part_bytes() : 0);
  }
  // The same to one element.
  constexpr std::int64_t place(int head, int position, Part part, int dim) const {
    return leaf(head, position / kLeafKeys, part) + within(position % kLeafKeys, dim, element_bytes);
  }
  // Bytes from the start of a leaf's keys or values to one element, which may be the first of a 16-byte chunk.
  static constexpr int within(int row, int dim, int element_bytes) {
    const int line = row * kPanelDims * element_bytes + dim % kPanelDims * element_bytes;
    const int swizzled = line ^ ((line >> 7 & (kPanelDims * element_bytes / 16 - 1)) << 4);
    return dim / kPanelDims * kLeafKeys * kPanelDims * element_bytes + swizzled;
  }
};

}  // namespace fourfold::cuda
