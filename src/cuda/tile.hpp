// Tile<S>: how a weight of storage S lies on the device: 16 rows x kColumns columns in one run of kBytes.
//
// Eight strips of kStripColumns columns, one for each warp that walks the tile. A strip is kSteps pieces of 16 x 16,
// the A operands of mma.sync m16n8k16: lane 4 g + t holds the pairs p = 0..3 of columns (2t, 2t+1) + 8 (p / 2) in rows
// g + 8 (p % 2). Codes are split into planes of a few bits each; a plane is [strip][vector][lane], a vector up to 16
// bytes, so that a warp reads whole lines. Behind the planes lie the strips' scales. Rows and columns beyond the matrix
// hold code 0 and scale 0.
#pragma once

#include <cstdint>
#include <fourfold/blocks.hpp>

namespace fourfold::cuda {

inline constexpr int kTileRows = 16;
inline constexpr int kTileStrips = 8;
inline constexpr int kLanes = 32;

// Where an element of a 16 x 16 piece lies: its lane, the pair in it, which of the pair.
struct Slot {
  int lane, pair, half;
};
constexpr Slot slot(int row, int column) {
  return {row % 8 * 4 + column % 8 / 2, column / 8 * 2 + row / 8, column % 2};
}
constexpr int slot_row(int lane, int pair) { return lane / 4 + pair % 2 * 8; }
constexpr int slot_column(int lane, int pair, int half) { return lane % 4 * 2 + pair / 2 * 8 + half; }

// One plane: kBits bits of every element of a tile, `kSteps` pieces a strip.
template <int kBits, int kSteps>
struct Plane {
  static constexpr int kWords = kSteps * kBits / 4;  // of 32 bits, per lane of a strip
  static constexpr int kVectorWords = kWords < 4 ? kWords : 4;
  static constexpr int kVectors = kWords / kVectorWords;
  static constexpr int kBytes = kWords * 4 * kLanes * kTileStrips;

  // Byte of word `word` of a lane.
  static constexpr int word_place(int strip, int word, int lane) {
    const int vector = word / kVectorWords;
    return (((strip * kVectors + vector) * kLanes + lane) * kVectorWords + word % kVectorWords) * 4;
  }
  // Word and lowest bit of an element's field. Halves of a pair lie 16 bits apart, but bytes as cvt.f16x2.e4m3x2 takes
  // them, and 32-bit elements one after the other.
  static constexpr int word_of(int step, int pair, int half) {
    return kBits == 32 ? step * 8 + pair * 2 + half : (step * 4 + pair) * kBits / 16;
  }
  static constexpr int bit_of(int step, int pair, int half) {
    if (kBits == 32) return 0;
    const int in_word = (step * 4 + pair) % (16 / (kBits < 16 ? kBits : 16));
    return kBits == 8 ? 16 * in_word + 8 * half : 16 * half + kBits * in_word;
  }
  static constexpr std::uint32_t put(std::uint32_t code, int step, int pair, int half) {
    return code << bit_of(step, pair, half);
  }
  static constexpr std::uint32_t take(std::uint32_t word, int step, int pair, int half) {
    return (word >> bit_of(step, pair, half)) & (0xffffffffu >> (32 - kBits));
  }
};

// The same of e2m1 codes: pair j of a word has its magnitudes at bits 9 - 3 j .. 11 - 3 j of both halves, where a shift
// by 3 j makes them 2^-14 times their value as f16, and its signs at bits 15, 12, 14, 13.
template <int kSteps>
struct PlaneE2m1 : Plane<4, kSteps> {
  static constexpr int sign_bit(int pair) { return pair == 0 ? 15 : 11 + (pair == 1 ? 1 : pair == 2 ? 3 : 2); }
  static constexpr std::uint32_t put(std::uint32_t code, int, int pair, int half) {
    return ((code & 7) << (9 - 3 * pair) | (code >> 3) << sign_bit(pair)) << (16 * half);
  }
  static constexpr std::uint32_t take(std::uint32_t word, int, int pair, int half) {
    const std::uint32_t own = word >> (16 * half);
    return ((own >> (9 - 3 * pair)) & 7) | ((own >> sign_bit(pair)) & 1) << 3;
  }
};

struct NoPlane {
  static constexpr int kBytes = 0;
};

// 16 rows of a matrix as its file holds them, and what they are multiplied with besides.
struct TileSource {
  const std::uint8_t* rows;  // of the first row
  std::int64_t row_bytes;
  int count;    // rows that are there
  int columns;  // that are there
  float scale;  // fp8: of the strip's 128 x 128 block

  constexpr const std::uint8_t* row(int r) const { return rows + r * row_bytes; }
  template <class Block>
  constexpr const std::uint8_t* block(int r, int column) const {
    constexpr StorageInfo kInfo = info(Block::kStorage);
    return row(r) + column / kInfo.block_elements * kInfo.block_bytes;
  }
};

// What all tiles share: kStripScaleBytes of scales for each strip, behind two planes; the second holds the high bits.
template <Storage kStorage_, int kColumns_, class Low_, class High_, int kLowBits_, int kStripScaleBytes_>
struct TileShape {
  static constexpr Storage kStorage = kStorage_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kStripColumns = kColumns / kTileStrips;
  static constexpr int kSteps = kStripColumns / 16;
  static constexpr int kLowBits = kLowBits_;
  using Low = Low_;
  using High = High_;
  static constexpr int kHighOffset = Low::kBytes;
  static constexpr int kScaleOffset = kHighOffset + High::kBytes;
  static constexpr int kStripScaleBytes = kStripScaleBytes_;
  static constexpr int kBytes = kScaleOffset + kTileStrips * kStripScaleBytes;
  static_assert(kBytes % 16 == 0 && kScaleOffset % 16 == 0, "bulk copies move multiples of 16 bytes");

  static constexpr int scale_place(int strip) { return kScaleOffset + strip * kStripScaleBytes; }
};

template <Storage kStorage>
struct Tile;

// Each tile has, besides its shape:
//   code(source, row, column)             an element's bits, low plane first; row and column are there
//   scales(source, column, out)           writes a strip's scales, `column` its first one; `out` begins as zeros
//   value(code, scales, row, column)      the element that they stand for, column within the strip: the definition

namespace detail {

constexpr void copy(std::uint8_t* to, const std::uint8_t* from, int n) {
  for (int i = 0; i < n; ++i) to[i] = from[i];
}

template <Storage kStorage, int kColumns, int kBits>
struct PlainTile : TileShape<kStorage, kColumns, Plane<kBits, kColumns / 128>, NoPlane, kBits, 0> {
  static constexpr void scales(const TileSource&, int, std::uint8_t*) {}
};

// Blocks of 32 with an f16 scale, at `kOffset` in the block; a strip's scales are [row][4]. kBias: code of the number
// 0.
template <class Block, class Low, class High, int kBits, int kBias_>
struct ScaledTile : TileShape<Block::kStorage, 1024, Low, High, kBits, 128> {
  static constexpr int kBias = kBias_;
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count; ++r)
      for (int b = 0; b < 4 && column + 32 * b < source.columns; ++b)
        copy(out + r * 8 + b * 2, source.block<Block>(r, column + 32 * b), 2);
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int column) {
    return blocks::load_f16(scales + row * 8 + column / 32 * 2) * static_cast<float>(static_cast<int>(code) - kBias);
  }
};

}  // namespace detail

template <>
struct Tile<Storage::bf16> : detail::PlainTile<Storage::bf16, 512, 16> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) { return blocks::load_u16(s.row(r) + 2 * c); }
  static constexpr float value(std::uint32_t code, const std::uint8_t*, int, int) {
    return bf16_to_float(static_cast<std::uint16_t>(code));
  }
};

template <>
struct Tile<Storage::f16> : detail::PlainTile<Storage::f16, 512, 16> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) { return blocks::load_u16(s.row(r) + 2 * c); }
  static constexpr float value(std::uint32_t code, const std::uint8_t*, int, int) {
    return half_to_float(static_cast<std::uint16_t>(code));
  }
};

// Numbers as they are, of any storage that has no tile of its own.
template <class Block>
struct DecodedTile : detail::PlainTile<Storage::f32, 256, 32> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    constexpr StorageInfo kInfo = info(Block::kStorage);
    return std::bit_cast<std::uint32_t>(Block::at(s.block<Block>(r, c), c % kInfo.block_elements));
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t*, int, int) { return std::bit_cast<float>(code); }
};
template <>
struct Tile<Storage::f32> : DecodedTile<blocks::F32> {};

// A strip's scale is that of its 128 x 128 block of the matrix (1 where there are none): f32.
template <>
struct Tile<Storage::fp8> : TileShape<Storage::fp8, 1024, Plane<8, 8>, NoPlane, 8, 4> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) { return s.row(r)[c]; }
  static constexpr void scales(const TileSource& source, int, std::uint8_t* out) {
    const auto bits = std::bit_cast<std::uint32_t>(source.scale);
    blocks::store_u16(out, static_cast<std::uint16_t>(bits & 0xffff));
    blocks::store_u16(out + 2, static_cast<std::uint16_t>(bits >> 16));
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int, int) {
    return std::bit_cast<float>(blocks::load_u32(scales)) * e4m3_to_float(static_cast<std::uint8_t>(code));
  }
};

template <>
struct Tile<Storage::q8_0> : detail::ScaledTile<blocks::Q8_0, Plane<8, 8>, NoPlane, 8, 128> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return s.block<blocks::Q8_0>(r, c)[2 + c % 32] ^ 0x80u;
  }
};

template <>
struct Tile<Storage::q4_0> : detail::ScaledTile<blocks::Q4_0, Plane<4, 8>, NoPlane, 4, 8> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return static_cast<std::uint32_t>(blocks::split_nibble(s.block<blocks::Q4_0>(r, c) + 2, c % 32));
  }
};

template <>
struct Tile<Storage::q5_0> : detail::ScaledTile<blocks::Q5_0, Plane<4, 8>, Plane<1, 8>, 4, 16> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    const std::uint8_t* block = s.block<blocks::Q5_0>(r, c);
    const auto low = static_cast<std::uint32_t>(blocks::split_nibble(block + 6, c % 32));
    return low | ((blocks::load_u32(block + 2) >> (c % 32)) & 1u) << 4;
  }
};

// Scales and minima of the four blocks of 32: [row]{d[4], m[4]}, f16.
template <>
struct Tile<Storage::q4_1> : TileShape<Storage::q4_1, 1024, Plane<4, 8>, NoPlane, 4, 256> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return static_cast<std::uint32_t>(blocks::split_nibble(s.block<blocks::Q4_1>(r, c) + 4, c % 32));
  }
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count; ++r)
      for (int b = 0; b < 4 && column + 32 * b < source.columns; ++b) {
        const std::uint8_t* block = source.block<blocks::Q4_1>(r, column + 32 * b);
        detail::copy(out + r * 16 + b * 2, block, 2);
        detail::copy(out + r * 16 + 8 + b * 2, block + 2, 2);
      }
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int column) {
    const std::uint8_t* own = scales + row * 16 + column / 32 * 2;
    return blocks::load_f16(own) * static_cast<float>(code) + blocks::load_f16(own + 8);
  }
};

// [row]{d, dmin (f16), scale[4], minimum[4] (bytes)}: the 6-bit numbers of the four sub-blocks of 32, a byte each.
template <>
struct Tile<Storage::q4_k> : TileShape<Storage::q4_k, 1024, Plane<4, 8>, NoPlane, 4, 192> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return static_cast<std::uint32_t>(blocks::run_nibble(s.block<blocks::Q4_K>(r, c) + 16, c % 256));
  }
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count && column < source.columns; ++r) {
      const std::uint8_t* block = source.block<blocks::Q4_K>(r, column);
      detail::copy(out + r * 12, block, 4);
      for (int b = 0; b < 4; ++b) {
        const auto six = blocks::six_bits(block + 4, column % 256 / 32 + b);
        out[r * 12 + 4 + b] = static_cast<std::uint8_t>(six.scale);
        out[r * 12 + 8 + b] = static_cast<std::uint8_t>(six.minimum);
      }
    }
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int column) {
    const std::uint8_t* own = scales + row * 12;
    const int block = column / 32;
    const float scale = blocks::load_f16(own) * static_cast<float>(own[4 + block]);
    const float minimum = blocks::load_f16(own + 2) * static_cast<float>(own[8 + block]);
    return scale * static_cast<float>(code) - minimum;
  }
};

// [row] scale[8], signed bytes, of the sub-blocks of 16, then [row] d (f16).
template <>
struct Tile<Storage::q6_k> : TileShape<Storage::q6_k, 1024, Plane<4, 8>, Plane<2, 8>, 4, 160> {
  static constexpr int kBias = 32;
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    const std::uint8_t* block = s.block<blocks::Q6_K>(r, c);
    const int half = c % 256 / 128, quarter = c % 128 / 32, j = c % 32;
    const int low = blocks::nibble(block[half * 64 + quarter % 2 * 32 + j], quarter / 2);
    return static_cast<std::uint32_t>(low | ((block[128 + half * 32 + j] >> (2 * quarter)) & 3) << 4);
  }
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count && column < source.columns; ++r) {
      const std::uint8_t* block = source.block<blocks::Q6_K>(r, column);
      detail::copy(out + r * 8, block + 192 + column % 256 / 16, 8);
      detail::copy(out + 128 + r * 2, block + 208, 2);
    }
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int column) {
    return blocks::load_f16(scales + 128 + row * 2) *
           static_cast<float>(blocks::signed_byte(scales[row * 8 + column / 16])) *
           static_cast<float>(static_cast<int>(code) - kBias);
  }
};

// A strip is one group of 128: [row] scale (f16), then [row] zero, four bits each.
template <>
struct Tile<Storage::int4> : TileShape<Storage::int4, 1024, Plane<4, 8>, NoPlane, 4, 40> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return static_cast<std::uint32_t>(blocks::INT4::code(s.block<blocks::INT4>(r, c), c % 256));
  }
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count && column < source.columns; ++r) {
      const std::uint8_t* block = source.block<blocks::INT4>(r, column);
      detail::copy(out + r * 2, block + column % 256 / 128 * 2, 2);
      const int zero = blocks::INT4::zero(block, column % 256 / 128) << (r % 2 * 4);
      out[32 + r / 2] = static_cast<std::uint8_t>(out[32 + r / 2] | zero);
    }
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int) {
    const int zero = blocks::nibble(scales[32 + row / 2], row % 2);
    return blocks::load_f16(scales + row * 2) * static_cast<float>(static_cast<int>(code) - zero);
  }
};

// [row] exponent[4] of the blocks of 32.
template <>
struct Tile<Storage::mxfp4> : TileShape<Storage::mxfp4, 1024, PlaneE2m1<8>, NoPlane, 4, 64> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return static_cast<std::uint32_t>(blocks::split_nibble(s.block<blocks::MXFP4>(r, c) + 1, c % 32));
  }
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count; ++r)
      for (int b = 0; b < 4 && column + 32 * b < source.columns; ++b)
        out[r * 4 + b] = *source.block<blocks::MXFP4>(r, column + 32 * b);
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int column) {
    return blocks::MXFP4::scale(scales[row * 4 + column / 32]) * e2m1_to_float(static_cast<int>(code));
  }
};

// [row] scale[8] of the sub-blocks of 16, e4m3; the number 0 stands for 0x7f, too.
template <>
struct Tile<Storage::nvfp4> : TileShape<Storage::nvfp4, 1024, PlaneE2m1<8>, NoPlane, 4, 128> {
  static constexpr std::uint32_t code(const TileSource& s, int r, int c) {
    return static_cast<std::uint32_t>(blocks::NVFP4::code(s.block<blocks::NVFP4>(r, c), c % 64));
  }
  static constexpr void scales(const TileSource& source, int column, std::uint8_t* out) {
    for (int r = 0; r < source.count; ++r)
      for (int b = 0; b < 8 && column + 16 * b < source.columns; ++b) {
        const std::uint8_t scale = source.block<blocks::NVFP4>(r, column + 16 * b)[(column + 16 * b) % 64 / 16] & 0x7f;
        out[r * 8 + b] = scale == 0x7f ? std::uint8_t{0} : scale;
      }
  }
  static constexpr float value(std::uint32_t code, const std::uint8_t* scales, int row, int column) {
    return blocks::NVFP4::scale(scales[row * 8 + column / 16]) * e2m1_to_float(static_cast<int>(code));
  }
};

// Writes word `word` of lane `lane` of a strip's plane; `column`: the strip's first one in the matrix; kHigh: the
// second plane. Every word of a tile and every strip's scales may be written by a thread of its own.
template <class T, bool kHigh>
constexpr void pack_word(const TileSource& source, int column, int strip, int lane, int word, std::uint8_t* tile) {
  using Plane = std::conditional_t<kHigh, typename T::High, typename T::Low>;
  std::uint32_t bits = 0;
  for (int step = 0; step < T::kSteps; ++step)
    for (int pair = 0; pair < 4; ++pair)
      for (int half = 0; half < 2; ++half) {
        if (Plane::word_of(step, pair, half) != word) continue;
        const int r = slot_row(lane, pair), c = column + step * 16 + slot_column(lane, pair, half);
        if (r >= source.count || c >= source.columns) continue;
        const std::uint32_t code = T::code(source, r, c);
        bits |= Plane::put(kHigh ? code >> T::kLowBits : code & (0xffffffffu >> (32 - T::kLowBits)), step, pair, half);
      }
  std::uint8_t* at = tile + (kHigh ? T::kHighOffset : 0) + Plane::word_place(strip, word, lane);
  blocks::store_u16(at, static_cast<std::uint16_t>(bits & 0xffff));
  blocks::store_u16(at + 2, static_cast<std::uint16_t>(bits >> 16));
}

// The whole tile whose first column is `column`, one word after the other.
template <class T>
constexpr void pack_tile(const TileSource& source, int column, std::uint8_t* tile) {
  for (int i = 0; i < T::kBytes; ++i) tile[i] = 0;
  for (int strip = 0; strip < kTileStrips; ++strip) {
    const int first = column + strip * T::kStripColumns;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int word = 0; word < T::Low::kWords; ++word) pack_word<T, false>(source, first, strip, lane, word, tile);
      if constexpr (T::High::kBytes > 0)
        for (int word = 0; word < T::High::kWords; ++word) pack_word<T, true>(source, first, strip, lane, word, tile);
    }
    T::scales(source, first, tile + T::scale_place(strip));
  }
}

// Element (row, column) of a tile: the specification of what accumulate() multiplies with.
template <class T>
constexpr float tile_value(const std::uint8_t* tile, int row, int column) {
  const int strip = column / T::kStripColumns, c = column % T::kStripColumns, step = c / 16;
  const Slot at = slot(row, c % 16);
  const auto field = [&](auto plane, int offset) {
    using Plane = decltype(plane);
    const int word = Plane::word_of(step, at.pair, at.half);
    return Plane::take(blocks::load_u32(tile + offset + Plane::word_place(strip, word, at.lane)), step, at.pair,
                       at.half);
  };
  std::uint32_t code = field(typename T::Low{}, 0);
  if constexpr (T::High::kBytes > 0) code |= field(typename T::High{}, T::kHighOffset) << T::kLowBits;
  return T::value(code, tile + T::scale_place(strip), row, c);
}

// The order of a matrix's tiles in memory: batches of `batch` row groups (of 16 rows), in a batch slice after slice (of
// kColumns columns), in a slice group after group. A walk over a batch reads its tiles one after the other.
struct TileOrder {
  int groups, slices, batch;

  constexpr std::int64_t tiles() const { return std::int64_t{groups} * slices; }
  constexpr std::int64_t index(int group, int slice) const {
    const int first = group / batch * batch;
    const int size = groups - first < batch ? groups - first : batch;
    return std::int64_t{first} * slices + std::int64_t{slice} * size + (group - first);
  }
};

// Calls f with Tile<s>; storages without a tile of their own go as f32, decoded from their blocks.
template <class F>
constexpr auto with_tile(Storage s, F&& f) {
  switch (s) {
    case Storage::f32:
      return f(Tile<Storage::f32>{});
    case Storage::f16:
      return f(Tile<Storage::f16>{});
    case Storage::bf16:
      return f(Tile<Storage::bf16>{});
    case Storage::q4_0:
      return f(Tile<Storage::q4_0>{});
    case Storage::q4_1:
      return f(Tile<Storage::q4_1>{});
    case Storage::q5_0:
      return f(Tile<Storage::q5_0>{});
    case Storage::q8_0:
      return f(Tile<Storage::q8_0>{});
    case Storage::q4_k:
      return f(Tile<Storage::q4_k>{});
    case Storage::q6_k:
      return f(Tile<Storage::q6_k>{});
    case Storage::mxfp4:
      return f(Tile<Storage::mxfp4>{});
    case Storage::fp8:
      return f(Tile<Storage::fp8>{});
    case Storage::int4:
      return f(Tile<Storage::int4>{});
    case Storage::nvfp4:
      return f(Tile<Storage::nvfp4>{});
    case Storage::q5_1:
      return f(DecodedTile<blocks::Q5_1>{});
    case Storage::q5_k:
      break;
  }
  return f(DecodedTile<blocks::Q5_K>{});
}

}  // namespace fourfold::cuda
