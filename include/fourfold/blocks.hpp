// Element-level specification of every storage: what number stands at element i of one block.
//
// Fast code may decode in any order it likes as long as it gets these values bit for bit: every product below is exact
// in float32 (f16 scale x 6..8-bit sub-scale x 4..8-bit code), so each element is rounded at most once, and fused
// multiply-add changes nothing. Layouts follow GGUF's block formats; multi-byte fields are little-endian.
// d, m: block scale and minimum (f16); nibble j of byte b: low for j = 0, high for j = 1.
#pragma once

#include <bit>
#include <cstdint>
#include <fourfold/storage.hpp>
#include <limits>

namespace fourfold {

// IEEE binary16 to binary32. Exact; a signalling NaN comes back quiet, its payload kept (as F16C does).
constexpr float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16;
  const std::uint32_t exponent = (h >> 10) & 31u;
  const std::uint32_t fraction = h & 1023u;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// binary32 to binary16, ties to even; beyond 65504 + half a step gives infinity, a NaN stays a (quiet) NaN.
constexpr std::uint16_t float_to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // 0.5 has a unit in the last place of 2^-24, the step of binary16's subnormals: the addition rounds to it.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude + 0xfffu + odd - 0x38000000u) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

constexpr float bf16_to_float(std::uint16_t b) { return std::bit_cast<float>(std::uint32_t{b} << 16); }

// binary32 to bfloat16, ties to even; a NaN stays a (quiet) NaN.
constexpr std::uint16_t float_to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// OCP 8-bit float e4m3 to binary32: sign, 4 bits of exponent (bias 7), 3 of fraction; no infinity, 0x7f and 0xff are
// NaN.
constexpr float e4m3_to_float(std::uint8_t b) {
  const std::uint32_t sign = std::uint32_t{b & 0x80u} << 24;
  const std::uint32_t magnitude = b & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude < 8)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f));
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

// OCP 4-bit float e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
constexpr float e2m1_to_float(int code) {
  const int exponent = (code >> 1) & 3, fraction = code & 1;
  const float magnitude = exponent == 0 ? 0.5f * static_cast<float>(fraction)
                                        : static_cast<float>(2 + fraction) * static_cast<float>(1 << exponent) * 0.25f;
  return code & 8 ? -magnitude : magnitude;
}

namespace blocks {

constexpr std::uint16_t load_u16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] | (p[1] << 8)); }
constexpr std::uint32_t load_u32(const std::uint8_t* p) {
  return std::uint32_t{load_u16(p)} | (std::uint32_t{load_u16(p + 2)} << 16);
}
constexpr void store_u16(std::uint8_t* p, std::uint16_t v) {
  p[0] = static_cast<std::uint8_t>(v & 0xff);
  p[1] = static_cast<std::uint8_t>(v >> 8);
}
constexpr float load_f16(const std::uint8_t* p) { return half_to_float(load_u16(p)); }
constexpr int nibble(std::uint8_t byte, int which) { return (byte >> (4 * which)) & 15; }
constexpr int signed_byte(std::uint8_t byte) { return static_cast<std::int8_t>(byte); }

// Element i of 16 bytes: byte j holds element j in its low nibble and element j + 16 in its high one.
constexpr int split_nibble(const std::uint8_t* bytes, int i) { return nibble(bytes[i % 16], i / 16); }
// Element i of 128 bytes in runs of 64 elements: 32 bytes, low nibbles first.
constexpr int run_nibble(const std::uint8_t* bytes, int i) {
  return nibble(bytes[(i / 64) * 32 + i % 32], (i / 32) % 2);
}

struct F32 {  // 4 bytes
  static constexpr Storage kStorage = Storage::f32;
  static constexpr float at(const std::uint8_t* block, int) { return std::bit_cast<float>(load_u32(block)); }
};
struct F16 {  // 2 bytes
  static constexpr Storage kStorage = Storage::f16;
  static constexpr float at(const std::uint8_t* block, int) { return load_f16(block); }
};
struct BF16 {  // 2 bytes
  static constexpr Storage kStorage = Storage::bf16;
  static constexpr float at(const std::uint8_t* block, int) { return bf16_to_float(load_u16(block)); }
};

struct Q4_0 {  // d[2] codes[16]: d (q - 8)
  static constexpr Storage kStorage = Storage::q4_0;
  static constexpr float at(const std::uint8_t* block, int i) {
    return load_f16(block) * static_cast<float>(split_nibble(block + 2, i) - 8);
  }
};
struct Q4_1 {  // d[2] m[2] codes[16]: d q + m
  static constexpr Storage kStorage = Storage::q4_1;
  static constexpr float at(const std::uint8_t* block, int i) {
    return load_f16(block) * static_cast<float>(split_nibble(block + 4, i)) + load_f16(block + 2);
  }
};
struct Q5_0 {  // d[2] fifth bits[4] codes[16]: d (q - 16); bit i of the fifth bits belongs to element i
  static constexpr Storage kStorage = Storage::q5_0;
  static constexpr float at(const std::uint8_t* block, int i) {
    const int fifth = static_cast<int>((load_u32(block + 2) >> i) & 1u);
    return load_f16(block) * static_cast<float>((split_nibble(block + 6, i) | (fifth << 4)) - 16);
  }
};
struct Q5_1 {  // d[2] m[2] fifth bits[4] codes[16]: d q + m
  static constexpr Storage kStorage = Storage::q5_1;
  static constexpr float at(const std::uint8_t* block, int i) {
    const int fifth = static_cast<int>((load_u32(block + 4) >> i) & 1u);
    return load_f16(block) * static_cast<float>(split_nibble(block + 8, i) | (fifth << 4)) + load_f16(block + 2);
  }
};
struct Q8_0 {  // d[2] codes[32], signed: d q
  static constexpr Storage kStorage = Storage::q8_0;
  static constexpr float at(const std::uint8_t* block, int i) {
    return load_f16(block) * static_cast<float>(signed_byte(block[2 + i]));
  }
};

// The 6-bit scale and minimum of sub-block s (0..7), packed into 12 bytes: sub-blocks 0..3 use the low 6 bits of bytes
// s and s + 4; sub-blocks 4..7 take their low 4 bits from byte s + 4 and their high 2 from the top of bytes s - 4 and
// s.
struct SixBits {
  int scale, minimum;
};
constexpr SixBits six_bits(const std::uint8_t* packed, int s) {
  if (s < 4) return {packed[s] & 63, packed[s + 4] & 63};
  return {(packed[s + 4] & 15) | ((packed[s - 4] >> 6) << 4), (packed[s + 4] >> 4) | ((packed[s] >> 6) << 4)};
}

struct Q4_K {  // d[2] dmin[2] scales[12] codes[128]: d scale q - dmin minimum, sub-blocks of 32
  static constexpr Storage kStorage = Storage::q4_k;
  static constexpr float at(const std::uint8_t* block, int i) {
    const SixBits sub = six_bits(block + 4, i / 32);
    const float scale = load_f16(block) * static_cast<float>(sub.scale);
    const float minimum = load_f16(block + 2) * static_cast<float>(sub.minimum);
    return scale * static_cast<float>(run_nibble(block + 16, i)) - minimum;
  }
};
struct Q5_K {  // d[2] dmin[2] scales[12] fifth bits[32] codes[128]; bit s of fifth byte j: element 32 s + j
  static constexpr Storage kStorage = Storage::q5_k;
  static constexpr float at(const std::uint8_t* block, int i) {
    const SixBits sub = six_bits(block + 4, i / 32);
    const int fifth = (block[16 + i % 32] >> (i / 32)) & 1;
    const float scale = load_f16(block) * static_cast<float>(sub.scale);
    const float minimum = load_f16(block + 2) * static_cast<float>(sub.minimum);
    return scale * static_cast<float>(run_nibble(block + 48, i) | (fifth << 4)) - minimum;
  }
};
struct Q6_K {  // low nibbles[128] high pairs[64] scales[16], signed, d[2]: d scale (q - 32), sub-blocks of 16
  static constexpr Storage kStorage = Storage::q6_k;
  static constexpr float at(const std::uint8_t* block, int i) {
    const int half = i / 128, quarter = (i % 128) / 32, j = i % 32;
    const int low = nibble(block[half * 64 + (quarter % 2) * 32 + j], quarter / 2);
    const int high = (block[128 + half * 32 + j] >> (2 * quarter)) & 3;
    const float scale = load_f16(block + 208) * static_cast<float>(signed_byte(block[192 + i / 16]));
    return scale * static_cast<float>((low | (high << 4)) - 32);
  }
};

struct MXFP4 {  // scale[1] (a power of two, bias 127; 255 is NaN) codes[16], e2m1: scale value            OCP MX 1.0
  static constexpr Storage kStorage = Storage::mxfp4;
  static constexpr float scale(std::uint8_t exponent) {
    const std::uint32_t bits = exponent == 255 ? 0x7fc00000u : std::uint32_t{exponent} << 23;
    return std::bit_cast<float>(exponent == 0 ? 0x00400000u : bits);
  }
  static constexpr float at(const std::uint8_t* block, int i) {
    return scale(block[0]) * e2m1_to_float(split_nibble(block + 1, i));
  }
};
struct FP8 {  // 1 byte, e4m3; scales, where there are any, are a tensor of their own (Dot::scale)
  static constexpr Storage kStorage = Storage::fp8;
  static constexpr float at(const std::uint8_t* block, int) { return e4m3_to_float(*block); }
};
struct INT4 {  // two groups of 128: d[2] d[2] zeros[1] codes[128]: d (q - zero); byte j: elements 2 j (low) and 2 j + 1
  static constexpr Storage kStorage = Storage::int4;
  static constexpr int zero(const std::uint8_t* block, int group) { return nibble(block[4], group); }
  static constexpr int code(const std::uint8_t* block, int i) { return nibble(block[5 + i / 2], i % 2); }
  static constexpr float at(const std::uint8_t* block, int i) {
    return load_f16(block + i / 128 * 2) * static_cast<float>(code(block, i) - zero(block, i / 128));
  }
};
struct NVFP4 {  // four sub-blocks of 16: scales[4] (e4m3 without its sign; 0x7f is 0) codes[32], e2m1: scale value
  static constexpr Storage kStorage = Storage::nvfp4;
  static constexpr float scale(std::uint8_t byte) {
    return (byte & 0x7f) == 0x7f ? 0.f : e4m3_to_float(static_cast<std::uint8_t>(byte & 0x7f));
  }
  static constexpr int code(const std::uint8_t* block, int i) {
    return nibble(block[4 + i / 16 * 8 + i % 8], i % 16 / 8);
  }
  static constexpr float at(const std::uint8_t* block, int i) {
    return scale(block[i / 16]) * e2m1_to_float(code(block, i));
  }
};

// Nearest integer, ties to even, for |x| < 2^22: adding 1.5 x 2^23 leaves no fraction bits.
constexpr float nearest(float x) { return (x + 12582912.f) - 12582912.f; }

// Writes one Q8_0 block: d = max|x| / 127 rounded to f16 (at most 65504), q = nearest(x / d), clamped to +-127.
// x: 32 floats; block: 34 bytes. A block that holds a NaN or an infinity decodes to NaN throughout.
constexpr void encode_q8_0(const float* x, std::uint8_t* block) {
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    if (magnitude > largest) largest = magnitude;
  }
  const float wanted = largest / 127.f;
  const std::uint16_t stored = !finite ? std::uint16_t{0x7e00} : float_to_half(wanted < 65504.f ? wanted : 65504.f);
  const float d = half_to_float(stored);
  const float inverse = finite && d > 0 ? 1.f / d : 0.f;
  store_u16(block, stored);
  for (int i = 0; i < 32; ++i) {
    const float scaled = finite ? x[i] * inverse : 0.f;
    const float clamped = scaled < -127.f ? -127.f : scaled > 127.f ? 127.f : scaled;
    block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(nearest(clamped)));
  }
}

}  // namespace blocks

// Calls f with the block struct of `s`: with_storage(s, [](auto block) { return decltype(block)::at(bytes, 0); }).
template <class F>
constexpr auto with_storage(Storage s, F&& f) {
  switch (s) {
    case Storage::f32:
      return f(blocks::F32{});
    case Storage::f16:
      return f(blocks::F16{});
    case Storage::bf16:
      return f(blocks::BF16{});
    case Storage::q4_0:
      return f(blocks::Q4_0{});
    case Storage::q4_1:
      return f(blocks::Q4_1{});
    case Storage::q5_0:
      return f(blocks::Q5_0{});
    case Storage::q5_1:
      return f(blocks::Q5_1{});
    case Storage::q8_0:
      return f(blocks::Q8_0{});
    case Storage::q4_k:
      return f(blocks::Q4_K{});
    case Storage::q5_k:
      return f(blocks::Q5_K{});
    case Storage::q6_k:
      return f(blocks::Q6_K{});
    case Storage::mxfp4:
      return f(blocks::MXFP4{});
    case Storage::fp8:
      return f(blocks::FP8{});
    case Storage::int4:
      return f(blocks::INT4{});
    case Storage::nvfp4:
      break;
  }
  return f(blocks::NVFP4{});
}

// Element i (0 .. block_elements - 1) of one block of `storage`.
constexpr float decode(Storage storage, const std::uint8_t* block, int i) {
  return with_storage(storage, [=](auto kind) { return decltype(kind)::at(block, i); });
}

}  // namespace fourfold
