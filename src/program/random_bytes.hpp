// RandomBytes: the bytes of a tensor with random weights, block by block: the same on every machine, host or device.
//
// Every 8 bytes are a hash of (tensor, place), so any block can be made by any thread in any order; scales are then set
// so that a matrix keeps the size of what it multiplies. Products and sums are rounded one by one: compile without
// fused multiply-add.
#pragma once

#include <cstdint>
#include <fourfold/blocks.hpp>

namespace fourfold {

struct RandomBytes {
  Storage storage;
  std::uint64_t stream;  // of the tensor
  float deviation;       // of the numbers, about
  float mean;            // float storages only

  // SplitMix64's finaliser.                                                        Steele, Lea and Flood 2014
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  // Elements and bytes of a block, as info() says; device code cannot read its table.
  struct BlockSize {
    int elements, bytes;
  };
  constexpr BlockSize size() const {
    return with_storage(storage, [](auto block) {
      constexpr StorageInfo kInfo = info(decltype(block)::kStorage);
      return BlockSize{kInfo.block_elements, kInfo.block_bytes};
    });
  }

  // Block `index` of the tensor, row by row: size().bytes.
  constexpr void block(std::uint64_t index, std::uint8_t* out) const {
    const auto [elements, size] = this->size();
    if (storage == Storage::fp8) {
      *out = fp8(mix(stream + index));
    } else if (elements == 1) {
      number(mean + deviation * 1.7320508f * uniform(mix(stream + index)), out);
    } else {
      int i = 0;
      for (; i + 8 <= size; i += 8) word(index, i, 8, out);
      word(index, i, size - i, out);
      set_scales(out);
    }
  }

 private:
  constexpr void word(std::uint64_t index, int at, int bytes, std::uint8_t* out) const {
    const std::uint64_t bits = mix(stream + index * 64 + static_cast<std::uint64_t>(at / 8));
    for (int b = 0; b < bytes; ++b) out[at + b] = static_cast<std::uint8_t>(bits >> (8 * b));
  }
  // Uniform in [-1, 1) from the low 24 bits.
  static constexpr float uniform(std::uint64_t bits) { return static_cast<float>(bits & 0xffffff) / 8388608.0f - 1; }
  constexpr void number(float x, std::uint8_t* out) const {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (storage == Storage::f16) return blocks::store_u16(out, float_to_half(x));
    if (storage == Storage::bf16) return blocks::store_u16(out, float_to_bf16(x));
    blocks::store_u16(out, static_cast<std::uint16_t>(bits & 0xffff));
    blocks::store_u16(out + 2, static_cast<std::uint16_t>(bits >> 16));
  }
  // A random sign and fraction under the exponent that comes nearest below the deviation.
  constexpr std::uint8_t fp8(std::uint64_t bits) const {
    int exponent = 0;
    for (float size = 0x1p-6f; exponent < 14 && size * 1.5f < deviation; size *= 2) ++exponent;
    return static_cast<std::uint8_t>((bits & 0x87) | static_cast<std::uint64_t>(exponent) << 3);
  }

  // The standard deviations of random codes at scale 1 divide the deviation; minima centre them.
  constexpr void set_scales(std::uint8_t* out) const {
    const auto half = [&](int at, float value) { blocks::store_u16(out + at, float_to_half(value)); };
    constexpr float kNibble = 4.61f, kFive = 9.23f, kSix = 18.5f, kByte = 73.9f, kSubScale = 36.4f, kE2m1 = 2.93f;
    switch (storage) {
      case Storage::q4_0:
        return half(0, deviation / kNibble);
      case Storage::q4_1:
        half(0, deviation / kNibble);
        return half(2, -7.5f * (deviation / kNibble));
      case Storage::q5_0:
        return half(0, deviation / kFive);
      case Storage::q5_1:
        half(0, deviation / kFive);
        return half(2, -15.5f * (deviation / kFive));
      case Storage::q8_0:
        return half(0, deviation / kByte);
      case Storage::q4_k:
        half(0, deviation / (kNibble * kSubScale));
        return half(2, deviation / (kNibble * kSubScale) * 7.5f);
      case Storage::q5_k:
        half(0, deviation / (kFive * kSubScale));
        return half(2, deviation / (kFive * kSubScale) * 15.5f);
      case Storage::q6_k:
        return half(208, deviation / (kSix * kByte));
      case Storage::int4:
        half(0, deviation / kNibble);
        half(2, deviation / kNibble);
        out[4] = 0x78;
        return;
      case Storage::mxfp4:
        out[0] = static_cast<std::uint8_t>((std::bit_cast<std::uint32_t>(deviation / kE2m1 * 1.4142135f) >> 23) & 255);
        return;
      case Storage::nvfp4:
        for (int i = 0; i < 4; ++i) out[i] = nvfp4_scale(deviation / kE2m1);
        return;
      default:
        return;
    }
  }
  // The nearest subnormal e4m3: random weights are that small.
  static constexpr std::uint8_t nvfp4_scale(float scale) {
    const int code = static_cast<int>(scale * 1024 + 1) / 2;
    return static_cast<std::uint8_t>(code < 1 ? 1 : code > 7 ? 7 : code);
  }
};

}  // namespace fourfold
