// Dots of a tile's 16 rows with one activation on tensor cores, exact to float32 but for the order of additions.
//
// The eight columns of mma.sync's B operand hold parts of the same activation, whose sum is the activation: three bf16
// parts for bf16 and f32 weights; hi and lo in f16 for all others, after a power of two that brings the strip's largest
// magnitude to 2^14 .. 2^15. Codes become f16 by a few logical operations, exactly; scales are applied to the float32
// sums of their blocks. A warp walks one strip of every tile: acc[0] + acc[1] of lanes 4 g and 4 g + 1 is row g's sum
// over it, acc[2] + acc[3] row g + 8's. One tile costs about 1 (bf16) to 2.5 (4-bit) instructions per weight and lane.
#pragma once

#include "cuda/sm90/codes.cuh"
#include "cuda/sm90/parts.cuh"
#include "cuda/tile.hpp"

namespace fourfold::cuda::sm90 {

// ---- Codes ----------------------------------------------------------------------------------------------------------

// Vector v of a plane, as this lane reads it.
template <class Memory, class Plane>
__device__ __forceinline__ auto plane_vector(const std::uint8_t* plane, int strip, int v) {
  const int lane = threadIdx.x % kLanes;
  const std::uint8_t* at = plane + Plane::word_place(strip, v * Plane::kVectorWords, lane);
  if constexpr (Plane::kVectorWords == 4)
    return Memory::template read<uint4>(at);
  else
    return Memory::template read<uint2>(at);
}

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// A strip in registers: read<Memory>() brings it, accumulate() adds its dots to acc. kBlockSteps: pieces per scale.
template <class T>
struct Strip;

namespace detail {

// 16-bit weights and codes that become f16: what differs is how.
template <class T>
struct Codes {
  uint4 low[T::Low::kVectors];

  template <class Memory>
  __device__ __forceinline__ void read_low(const std::uint8_t* tile, int strip) {
#pragma unroll
    for (int v = 0; v < T::Low::kVectors; ++v) low[v] = plane_vector<Memory, typename T::Low>(tile, strip, v);
  }
  __device__ __forceinline__ std::uint32_t word(int i) const { return word_of(low[i / 4], i % 4); }
};

__device__ __forceinline__ int row_of_lane() { return threadIdx.x % kLanes / 4; }

// acc += inverse * sum over blocks of scale (codes . x) [+ minimum sum x]
template <int kSteps, int kBlockSteps, class Parts, class S>
__device__ __forceinline__ void accumulate_blocks(float (&acc)[4], const S& strip, const Parts& x, float factor) {
  float sum[4] = {0, 0, 0, 0};
#pragma unroll
  for (int block = 0; block < kSteps / kBlockSteps; ++block) {
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int step = block * kBlockSteps; step < (block + 1) * kBlockSteps; ++step) {
      std::uint32_t a[4];
      strip.operands(step, a);
      mma_f16(c, a, x.b[2 * step], x.b[2 * step + 1]);
    }
    const float2 scale = strip.scales(block);
    sum[0] = fmaf(scale.x, c[0], sum[0]);
    sum[1] = fmaf(scale.x, c[1], sum[1]);
    sum[2] = fmaf(scale.y, c[2], sum[2]);
    sum[3] = fmaf(scale.y, c[3], sum[3]);
    if constexpr (requires { strip.minima(block); }) {
      const float2 minimum = strip.minima(block);
      sum[0] = fmaf(minimum.x, x.sums[block], sum[0]);
      sum[2] = fmaf(minimum.y, x.sums[block], sum[2]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) acc[i] = fmaf(x.inverse * factor, sum[i], acc[i]);
}

// One scale for the whole strip (and both rows): the sums need no second set of registers.
template <int kSteps, class Parts, class S>
__device__ __forceinline__ void accumulate_strip(float (&acc)[4], const S& strip, const Parts& x, float2 scale) {
  float c[4] = {0, 0, 0, 0};
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t a[4];
    strip.operands(step, a);
    mma_f16(c, a, x.b[2 * step], x.b[2 * step + 1]);
  }
  const float upper = scale.x * x.inverse, lower = scale.y * x.inverse;
  acc[0] = fmaf(upper, c[0], acc[0]);
  acc[1] = fmaf(upper, c[1], acc[1]);
  acc[2] = fmaf(lower, c[2], acc[2]);
  acc[3] = fmaf(lower, c[3], acc[3]);
}

}  // namespace detail

// ---- Storages -------------------------------------------------------------------------------------------------------

template <>
struct Strip<Tile<Storage::bf16>> : detail::Codes<Tile<Storage::bf16>> {
  using T = Tile<Storage::bf16>;
  using Parts = Bf16Parts<T::kSteps>;

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int step = 0; step < T::kSteps; ++step) {
      const std::uint32_t a[4] = {low[step].x, low[step].y, low[step].z, low[step].w};
      mma_bf16(c, a, x.b[2 * step], x.b[2 * step + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[i] += c[i];
  }
};

// Each float32 weight is three bf16 parts, too: three products per piece.
template <class Block>
struct Strip<DecodedTile<Block>> : detail::Codes<DecodedTile<Block>> {
  using T = DecodedTile<Block>;
  using Parts = Bf16Parts<T::kSteps>;

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    this->template read_low<Memory>(tile, strip);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    float c[4] = {0, 0, 0, 0};
#pragma unroll
    for (int step = 0; step < T::kSteps; ++step) {
      float rest[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) rest[i] = __uint_as_float(this->word(step * 8 + i));
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        std::uint32_t a[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          const __nv_bfloat162 high = __floats2bfloat162_rn(rest[2 * pair], rest[2 * pair + 1]);
          rest[2 * pair] -= __low2float(high);
          rest[2 * pair + 1] -= __high2float(high);
          a[pair] = *reinterpret_cast<const std::uint32_t*>(&high);
        }
        mma_bf16(c, a, x.b[2 * step], x.b[2 * step + 1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[i] += c[i];
  }
};
template <>
struct Strip<Tile<Storage::f32>> : Strip<DecodedTile<blocks::F32>> {};

template <>
struct Strip<Tile<Storage::f16>> : detail::Codes<Tile<Storage::f16>> {
  using T = Tile<Storage::f16>;
  using Parts = F16Parts<T::kSteps, false>;

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = word_of(low[step], i);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_strip<T::kSteps>(acc, *this, x, float2{1, 1});
  }
};

template <>
struct Strip<Tile<Storage::fp8>> : detail::Codes<Tile<Storage::fp8>> {
  using T = Tile<Storage::fp8>;
  using Parts = F16Parts<T::kSteps, false>;
  float scale;

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
    scale = Memory::template read<float>(tile + T::scale_place(strip));
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    const std::uint32_t first = word(2 * step), second = word(2 * step + 1);
    a[0] = half2_of_e4m3(first & 0xffff);
    a[1] = half2_of_e4m3(first >> 16);
    a[2] = half2_of_e4m3(second & 0xffff);
    a[3] = half2_of_e4m3(second >> 16);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_strip<T::kSteps>(acc, *this, x, float2{scale, scale});
  }
};

namespace detail {

// Blocks of 32 with an f16 scale: [row][4].
template <class T>
struct ScaledStrip : Codes<T> {
  uint2 scale[2];

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    this->template read_low<Memory>(tile, strip);
    const std::uint8_t* at = tile + T::scale_place(strip) + row_of_lane() * 8;
    scale[0] = Memory::template read<uint2>(at);
    scale[1] = Memory::template read<uint2>(at + 64);
  }
  __device__ __forceinline__ float2 scales(int block) const {
    return {half_at(scale[0], block), half_at(scale[1], block)};
  }
};

}  // namespace detail

template <>
struct Strip<Tile<Storage::q8_0>> : detail::ScaledStrip<Tile<Storage::q8_0>> {
  using T = Tile<Storage::q8_0>;
  using Parts = F16Parts<T::kSteps, false>;

  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    constexpr std::uint32_t kZero = twice(1024 + T::kBias);
#pragma unroll
    for (int i = 0; i < 4; ++i)  // bytes 2 i, 2 i + 1, each under the high byte of 1024
      a[i] = sub2(__byte_perm(word(2 * step + i / 2), 0x64646464u, i % 2 == 0 ? 0x4140 : 0x4342), kZero);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 2>(acc, *this, x, 1.f);
  }
};

template <>
struct Strip<Tile<Storage::q4_0>> : detail::ScaledStrip<Tile<Storage::q4_0>> {
  using T = Tile<Storage::q4_0>;
  using Parts = F16Parts<T::kSteps, false>;

  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    constexpr std::uint32_t kZero = twice(1024 + T::kBias), kZero16 = twice(-64 - T::kBias);
    nibble_operands(word(step), {kZero, kZero}, {kZero16, kZero16}, a);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 2>(acc, *this, x, 1.f);
  }
};

template <>
struct Strip<Tile<Storage::q5_0>> : detail::ScaledStrip<Tile<Storage::q5_0>> {
  using T = Tile<Storage::q5_0>;
  using Parts = F16Parts<T::kSteps, false>;
  uint2 fifth;

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    detail::ScaledStrip<T>::template read<Memory>(tile, strip);
    fifth = plane_vector<Memory, T::High>(tile + T::kHighOffset, strip, 0);
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    const std::uint32_t bits = step < 4 ? fifth.x : fifth.y;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = step % 4 * 4 + i;  // bit of a half; to bit 4
      const std::uint32_t high = (at < 4 ? bits << (4 - at) : bits >> (at - 4)) & 0x00100010u;
      a[i] = nibbles(word(step), i, high, twice(1024 + T::kBias));
    }
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 2>(acc, *this, x, 1.f);
  }
};

template <>
struct Strip<Tile<Storage::q4_1>> : detail::Codes<Tile<Storage::q4_1>> {
  using T = Tile<Storage::q4_1>;
  using Parts = F16Parts<T::kSteps, true>;
  uint4 row[2];

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
    const std::uint8_t* at = tile + T::scale_place(strip) + detail::row_of_lane() * 16;
    row[0] = Memory::template read<uint4>(at);
    row[1] = Memory::template read<uint4>(at + 128);
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    nibble_operands(word(step), {twice(1024), twice(1024)}, {twice(-64), twice(-64)}, a);
  }
  __device__ __forceinline__ float2 scales(int block) const {
    return {half_at(uint2{row[0].x, row[0].y}, block), half_at(uint2{row[1].x, row[1].y}, block)};
  }
  __device__ __forceinline__ float2 minima(int block) const {
    return {half_at(uint2{row[0].z, row[0].w}, block), half_at(uint2{row[1].z, row[1].w}, block)};
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 2>(acc, *this, x, 1.f);
  }
};

template <>
struct Strip<Tile<Storage::q4_k>> : detail::Codes<Tile<Storage::q4_k>> {
  using T = Tile<Storage::q4_k>;
  using Parts = F16Parts<T::kSteps, true>;
  std::uint32_t d[2], scale[2], minimum[2];

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint8_t* at = tile + T::scale_place(strip) + (detail::row_of_lane() + 8 * i) * 12;
      d[i] = Memory::template read<std::uint32_t>(at);
      scale[i] = Memory::template read<std::uint32_t>(at + 4);
      minimum[i] = Memory::template read<std::uint32_t>(at + 8);
    }
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    nibble_operands(word(step), {twice(1024), twice(1024)}, {twice(-64), twice(-64)}, a);
  }
  __device__ __forceinline__ float2 scales(int block) const {
    return {float_of_half(d[0] & 0xffff) * static_cast<float>(byte_at(scale[0], block)),
            float_of_half(d[1] & 0xffff) * static_cast<float>(byte_at(scale[1], block))};
  }
  __device__ __forceinline__ float2 minima(int block) const {
    return {-float_of_half(d[0] >> 16) * static_cast<float>(byte_at(minimum[0], block)),
            -float_of_half(d[1] >> 16) * static_cast<float>(byte_at(minimum[1], block))};
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 2>(acc, *this, x, 1.f);
  }
};

template <>
struct Strip<Tile<Storage::q6_k>> : detail::Codes<Tile<Storage::q6_k>> {
  using T = Tile<Storage::q6_k>;
  using Parts = F16Parts<T::kSteps, false>;
  uint4 high;
  uint2 scale[2];
  float d[2];

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
    high = plane_vector<Memory, T::High>(tile + T::kHighOffset, strip, 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = detail::row_of_lane() + 8 * i;
      const std::uint8_t* at = tile + T::scale_place(strip);
      scale[i] = Memory::template read<uint2>(at + r * 8);
      d[i] = float_of_half(Memory::template read<std::uint16_t>(at + 128 + r * 2));
    }
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    const std::uint32_t bits = word_of(high, step / 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = (step % 2 * 4 + i) * 2;  // bit of a half; to bit 4
      const std::uint32_t two = (at < 4 ? bits << (4 - at) : bits >> (at - 4)) & 0x00300030u;
      a[i] = nibbles(word(step), i, two, twice(1024 + T::kBias));
    }
  }
  __device__ __forceinline__ float2 scales(int block) const {
    const auto signed_at = [&](const uint2& eight) {
      return static_cast<float>(static_cast<std::int8_t>(byte_at(block < 4 ? eight.x : eight.y, block % 4)));
    };
    return {d[0] * signed_at(scale[0]), d[1] * signed_at(scale[1])};
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 1>(acc, *this, x, 1.f);
  }
};

template <>
struct Strip<Tile<Storage::int4>> : detail::Codes<Tile<Storage::int4>> {
  using T = Tile<Storage::int4>;
  using Parts = F16Parts<T::kSteps, false>;
  float2 scale;
  std::uint32_t zero[2], zero16[2];  // 1024 + zero and -(64 + zero), as pairs

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
    const std::uint8_t* at = tile + T::scale_place(strip);
    const int row = detail::row_of_lane();
    scale = {float_of_half(Memory::template read<std::uint16_t>(at + row * 2)),
             float_of_half(Memory::template read<std::uint16_t>(at + row * 2 + 16))};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t two = Memory::template read<std::uint8_t>(at + 32 + row / 2 + 4 * i);
      const std::uint32_t code = (two >> (row % 2 * 4)) & 15u;
      zero[i] = (0x6400u | code) * 0x10001u;
      zero16[i] = half2_of(-64.f - static_cast<float>(code), -64.f - static_cast<float>(code));
    }
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    nibble_operands(word(step), zero, zero16, a);
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_strip<T::kSteps>(acc, *this, x, scale);
  }
};

template <>
struct Strip<Tile<Storage::mxfp4>> : detail::Codes<Tile<Storage::mxfp4>> {
  using T = Tile<Storage::mxfp4>;
  using Parts = F16Parts<T::kSteps, false>;
  std::uint32_t exponents[2];

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
    const std::uint8_t* at = tile + T::scale_place(strip) + detail::row_of_lane() * 4;
    exponents[0] = Memory::template read<std::uint32_t>(at);
    exponents[1] = Memory::template read<std::uint32_t>(at + 32);
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const { e2m1_operands(word(step), a); }
  __device__ __forceinline__ float2 scales(int block) const {
    return {blocks::MXFP4::scale(static_cast<std::uint8_t>(byte_at(exponents[0], block))),
            blocks::MXFP4::scale(static_cast<std::uint8_t>(byte_at(exponents[1], block)))};
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_blocks<T::kSteps, 2>(acc, *this, x, 16384.f);
  }
};

// A piece's scale (e4m3 times 2^7) times 2^-14 of an e2m1 number is exact in f16.
template <>
struct Strip<Tile<Storage::nvfp4>> : detail::Codes<Tile<Storage::nvfp4>> {
  using T = Tile<Storage::nvfp4>;
  using Parts = F16Parts<T::kSteps, false>;
  uint2 scale[2];

  template <class Memory>
  __device__ __forceinline__ void read(const std::uint8_t* tile, int strip) {
    read_low<Memory>(tile, strip);
    const std::uint8_t* at = tile + T::scale_place(strip) + detail::row_of_lane() * 8;
    scale[0] = Memory::template read<uint2>(at);
    scale[1] = Memory::template read<uint2>(at + 64);
  }
  __device__ __forceinline__ void operands(int step, std::uint32_t (&a)[4]) const {
    e2m1_operands(word(step), a);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t own = static_cast<std::uint32_t>(byte_at(step < 4 ? scale[i].x : scale[i].y, step % 4));
      const std::uint32_t both = mul2(half2_of_e4m3(own * 0x101u), twice(128));
      a[i] = mul2(a[i], both);
      a[i + 2] = mul2(a[i + 2], both);
    }
  }
  __device__ __forceinline__ void accumulate(float (&acc)[4], const Parts& x) const {
    detail::accumulate_strip<T::kSteps>(acc, *this, x, float2{128, 128});
  }
};

// Row sums of a strip: lane 4 g holds those of rows g (x) and g + 8 (y).
__device__ __forceinline__ float2 row_sums(const float (&acc)[4]) {
  float upper = acc[0] + acc[1], lower = acc[2] + acc[3];
  upper += __shfl_xor_sync(~0u, upper, 1);
  lower += __shfl_xor_sync(~0u, lower, 1);
  return {upper, lower};
}

}  // namespace fourfold::cuda::sm90
