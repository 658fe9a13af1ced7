// Every storage against the format's reference (tests/data/make_blocks.py), and the conversions against their meaning.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fourfold/blocks.hpp>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace fourfold {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr Storage kQuantised[] = {Storage::q4_0, Storage::q4_1, Storage::q5_0, Storage::q5_1,
                                  Storage::q8_0, Storage::q4_k, Storage::q5_k, Storage::q6_k};

// The number a 16-bit float stands for, from its definition: (-1)^s 2^(e - bias) (1 + f / 2^fraction_bits).
double value_of(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::uint64_t fnv1a(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values)
    for (int shift = 0; shift < 32; shift += 8)
      hash = (hash ^ ((std::bit_cast<std::uint32_t>(value) >> shift) & 255)) * 0x100000001b3u;
  return hash;
}

std::vector<float> decode_block(Storage storage, const std::uint8_t* block) {
  std::vector<float> out;
  for (int i = 0; i < info(storage).block_elements; ++i) out.push_back(decode(storage, block, i));
  return out;
}

// The blocks of a golden file and the hashes of what they decode to.
struct Golden {
  explicit Golden(Storage s) : storage(s) {
    bytes = read_file(FOURFOLD_TEST_DATA "/blocks/" + std::string(info(s).name) + ".bin");
    count = bytes.size() / static_cast<std::size_t>(info(s).block_bytes + 8);
  }
  std::uint8_t* block(std::size_t k) { return bytes.data() + k * static_cast<std::size_t>(info(storage).block_bytes); }
  std::uint64_t hash(std::size_t k) {
    std::uint64_t value = 0;
    std::memcpy(&value, block(count) + 8 * k, 8);
    return value;
  }
  Storage storage;
  Bytes bytes;
  std::size_t count = 0;
};

// Makes every scale 1 and every minimum 0, so that a block decodes to its codes (less their fixed offset).
void set_unit_scales(Storage storage, std::uint8_t* block) {
  const bool sixth = storage == Storage::q6_k;
  blocks::store_u16(block + (sixth ? 208 : 0), 0x3c00);
  if (storage == Storage::q4_1 || storage == Storage::q5_1) blocks::store_u16(block + 2, 0);
  if (storage == Storage::q4_k || storage == Storage::q5_k)
    for (int i = 0; i < 12; ++i) block[4 + i] = i < 4 || i >= 8 ? 1 : 0;
  for (int i = 0; sixth && i < 16; ++i) block[192 + i] = 1;
}

TEST(Blocks, DecodeAsTheFormatsReference) {
  for (const Storage storage : kQuantised) {
    Golden golden(storage);
    ASSERT_GE(golden.count, 65u) << info(storage).name;
    for (std::size_t k = 0; k < golden.count; ++k) {
      const auto values = decode_block(storage, golden.block(k));
      EXPECT_EQ(fnv1a(values), golden.hash(k))
          << info(storage).name << " block " << k << ": " << testing::PrintToString(values);
    }
  }
}

TEST(Blocks, GoldenBlocksHoldEveryCodeAtEveryPosition) {
  const std::size_t codes[] = {16, 16, 32, 32, 256, 16, 32, 64};
  for (std::size_t s = 0; s < std::size(kQuantised); ++s) {
    Golden golden(kQuantised[s]);
    std::vector<std::set<float>> seen(static_cast<std::size_t>(info(kQuantised[s]).block_elements));
    for (std::size_t k = 0; k < golden.count; ++k) {
      set_unit_scales(kQuantised[s], golden.block(k));
      const auto values = decode_block(kQuantised[s], golden.block(k));
      for (std::size_t i = 0; i < values.size(); ++i) seen[i].insert(values[i]);
    }
    for (const auto& position : seen) {
      EXPECT_EQ(position.size(), codes[s]) << info(kQuantised[s]).name;
      EXPECT_EQ(*position.rbegin() - *position.begin(), static_cast<float>(codes[s] - 1)) << info(kQuantised[s]).name;
    }
  }
}

TEST(Blocks, SixBitScalesAndMinimumsUnpackInEverySubBlock) {
  for (int s = 0; s < 8; ++s) {
    for (int code = 0; code < 64 * 64; ++code) {
      const int scale = code / 64, minimum = code % 64;
      std::array<std::uint8_t, 12> packed;
      packed.fill(static_cast<std::uint8_t>(s < 4 ? 0xc0 : 0x3f));  // neighbours' bits must not leak in
      if (s < 4) {
        packed[s] |= static_cast<std::uint8_t>(scale);
        packed[s + 4] |= static_cast<std::uint8_t>(minimum);
      } else {
        packed[s + 4] = static_cast<std::uint8_t>((scale & 15) | ((minimum & 15) << 4));
        packed[s - 4] |= static_cast<std::uint8_t>((scale >> 4) << 6);
        packed[s] |= static_cast<std::uint8_t>((minimum >> 4) << 6);
      }
      const auto met = blocks::six_bits(packed.data(), s);
      ASSERT_EQ(met.scale, scale) << s;
      ASSERT_EQ(met.minimum, minimum) << s;
    }
  }
}

TEST(Blocks, EveryE4m3CodeIsTheNumberOfItsDefinition) {  // OCP 8-bit floating point, 5.3
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const int exponent = (code >> 3) & 15, fraction = code & 7;
    const float got = decode(Storage::fp8, &byte, 0);
    if (exponent == 15 && fraction == 7) {
      EXPECT_TRUE(std::isnan(got)) << code;
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(got, code & 128 ? -magnitude : magnitude) << code;
    EXPECT_EQ(std::signbit(got), code >= 128) << code;
  }
}

TEST(Blocks, EveryMxfp4CodeAndScaleIsTheNumberOfItsDefinition) {  // OCP microscaling formats 1.0, 5.3.3 and 5.4.1
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int exponent = 0; exponent < 255; ++exponent)
    for (int code = 0; code < 16; ++code) {
      std::array<std::uint8_t, 17> block{};
      block[0] = static_cast<std::uint8_t>(exponent);
      block[1 + 5] = static_cast<std::uint8_t>(code << 4);
      const double magnitude = std::ldexp(kValues[code & 7], exponent - 127);
      EXPECT_EQ(decode(Storage::mxfp4, block.data(), 21), static_cast<float>(code & 8 ? -magnitude : magnitude));
      EXPECT_EQ(decode(Storage::mxfp4, block.data(), 20), 0.f);
    }
  const std::array<std::uint8_t, 17> nan{255, 0x11};
  EXPECT_TRUE(std::isnan(decode(Storage::mxfp4, nan.data(), 0)));
}

TEST(Blocks, Mxfp4HoldsNeighboursSixteenApart) {  // fault Q5
  std::array<std::uint8_t, 17> block{127, 0x21};
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(decode(Storage::mxfp4, block.data(), i), i == 0 ? 0.5f : i == 16 ? 1.0f : 0.0f) << i;
}

TEST(Blocks, EveryNvfp4CodeAndScaleIsTheNumberOfItsDefinition) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int scale = 0; scale < 127; ++scale)
    for (int code = 0; code < 16; ++code) {
      std::array<std::uint8_t, 36> block{};
      block[2] = static_cast<std::uint8_t>(scale);
      block[4 + 16 + 3] = static_cast<std::uint8_t>(code << 4);  // third sub-block, its element 8 + 3
      const double d = static_cast<double>(e4m3_to_float(static_cast<std::uint8_t>(scale)));
      EXPECT_EQ(decode(Storage::nvfp4, block.data(), 43), (code & 8 ? -d : d) * kValues[code & 7]);
      EXPECT_EQ(decode(Storage::nvfp4, block.data(), 35), 0.f);
    }
}

TEST(Blocks, EveryInt4CodeAndZeroIsTheNumberOfItsDefinition) {
  for (int zero = 0; zero < 16; ++zero)
    for (int code = 0; code < 16; ++code) {
      std::array<std::uint8_t, 133> block{};
      blocks::store_u16(block.data(), 0x3c00);      // 1
      blocks::store_u16(block.data() + 2, 0x3800);  // 0.5
      block[4] = static_cast<std::uint8_t>(zero << 4);
      block[5 + 70] = static_cast<std::uint8_t>(code << 4);  // element 141, in the second group
      EXPECT_EQ(decode(Storage::int4, block.data(), 141), 0.5f * static_cast<float>(code - zero));
      EXPECT_EQ(decode(Storage::int4, block.data(), 140), 0.5f * static_cast<float>(-zero));
      EXPECT_EQ(decode(Storage::int4, block.data(), 127), 0.f);
    }
}

TEST(Blocks, ZeroBlocksDecodeToZero) {  // fault Q4
  const Bytes zeros(256, 0);
  for (const auto& row : kStorages)
    for (const float value : decode_block(row.storage, zeros.data())) EXPECT_EQ(value, 0.f) << row.name;
}

TEST(Blocks, SubnormalAndNegativeZeroScalesKeepTheirValue) {  // fault Q4
  for (const Storage storage : kQuantised) {
    Golden golden(storage);
    std::uint8_t* block = golden.block(3);
    set_unit_scales(storage, block);
    const auto codes = decode_block(storage, block);
    for (const std::uint16_t scale : {0x0001, 0x03ff, 0x8001, 0x8000}) {
      blocks::store_u16(block + (storage == Storage::q6_k ? 208 : 0), scale);
      const auto values = decode_block(storage, block);
      for (std::size_t i = 0; i < codes.size(); ++i)
        EXPECT_EQ(values[i], static_cast<float>(value_of(scale, 10, 15) * codes[i])) << info(storage).name;
    }
  }
}

TEST(Blocks, ElementStoragesReadLittleEndian) {
  const std::uint8_t bytes[] = {0x00, 0x00, 0x80, 0x3f};
  EXPECT_EQ(decode(Storage::f32, bytes, 0), 1.f);
  EXPECT_EQ(decode(Storage::bf16, bytes + 2, 0), 1.f);
  const std::uint8_t half[] = {0x01, 0xc0};
  EXPECT_EQ(decode(Storage::f16, half, 0), -2.001953125f);
}

TEST(Conversions, HalfToFloatIsExactForAllValues) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float met = half_to_float(half);
    const double expected = value_of(half, 10, 15);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(met)) << bits;
    } else {
      ASSERT_EQ(met, expected) << bits;
      ASSERT_EQ(std::signbit(met), bits >= 0x8000) << bits;
      ASSERT_EQ(float_to_half(met), half);
    }
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(half_to_float(0x7c01)), 0x7fc02000u);  // quiet, payload kept
}

TEST(Conversions, BfloatToFloatIsExactForAllValues) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    const float met = bf16_to_float(stored);
    const double expected = value_of(stored, 7, 127);
    ASSERT_TRUE(met == expected || (std::isnan(met) && std::isnan(expected))) << bits;
    if (!std::isnan(met)) {
      ASSERT_EQ(float_to_bf16(met), stored);
    }
  }
}

// Checks `convert` on the midpoints between neighbours a < b (given by bits) and just beside them.
template <class Convert>
void expect_ties_to_even(double a, double b, std::uint16_t bits, Convert convert) {
  const auto middle = static_cast<float>((a + b) / 2);
  ASSERT_EQ(middle, (a + b) / 2);
  const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
  EXPECT_EQ(convert(middle), even) << middle;
  EXPECT_EQ(convert(-middle), even | 0x8000) << middle;
  EXPECT_EQ(convert(std::nextafter(middle, 0.f)), bits) << middle;
  EXPECT_EQ(convert(std::nextafter(middle, INFINITY)), bits + 1) << middle;
}

TEST(Conversions, FloatToHalfRoundsTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    expect_ties_to_even(value_of(bits, 10, 15), value_of(next, 10, 15), bits, float_to_half);
  }
  expect_ties_to_even(65504, 65536, 0x7bff, float_to_half);  // 65520 and above: infinity
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_half(-INFINITY), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_half(-0.f), 0x8000);
}

TEST(Conversions, FloatToBfloatRoundsTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7f7f; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    expect_ties_to_even(value_of(bits, 7, 127), value_of(next, 7, 127), bits, float_to_bf16);
  }
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(INFINITY), 0x7f80);
  EXPECT_EQ(float_to_bf16(-0.f), 0x8000);
}

TEST(Conversions, NansStayNans) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f802000u}) {
    const auto value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << bits;
    EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value)))) << bits;
    EXPECT_EQ(std::signbit(half_to_float(float_to_half(value))), (bits >> 31) != 0);
  }
}

std::vector<float> through_q8_0(const std::vector<float>& x) {
  Bytes block(34);
  blocks::encode_q8_0(x.data(), block.data());
  return decode_block(Storage::q8_0, block.data());
}

TEST(EncodeQ8, ErrsByHalfAStepAtMost) {
  std::vector<float> x(32);
  for (std::size_t i = 0; i < 32; ++i) x[i] = std::sin(static_cast<float>(i * i)) * 3.f;
  x[7] = -3.5f;
  const auto back = through_q8_0(x);
  const float step = 3.5f / 127.f;
  for (std::size_t i = 0; i < 32; ++i) EXPECT_NEAR(back[i], x[i], step * (0.5f + 127 * 0x1p-11f)) << i;
  EXPECT_NE(back, x);
}

TEST(EncodeQ8, KeepsWhatItCanHold) {
  std::vector<float> x(32);
  for (std::size_t i = 0; i < 32; ++i) x[i] = 0.25f * (static_cast<float>(i) * 8 - 127);
  EXPECT_EQ(through_q8_0(x), x);
}

TEST(EncodeQ8, ZeroAndTinyBlocksGiveZeroWithoutNan) {  // fault Q4
  EXPECT_EQ(through_q8_0(std::vector<float>(32, 0.f)), std::vector<float>(32, 0.f));
  EXPECT_EQ(through_q8_0(std::vector<float>(32, 1e-30f)), std::vector<float>(32, 0.f));
  const auto small = through_q8_0(std::vector<float>(32, 127 * 0x1p-24f));  // the scale is f16's smallest subnormal
  EXPECT_EQ(small, std::vector<float>(32, 127 * 0x1p-24f));
}

TEST(EncodeQ8, HugeValuesSaturateAndNonFiniteOnesShow) {
  std::vector<float> x(32, 1.f);
  x[3] = std::numeric_limits<float>::max();
  EXPECT_EQ(through_q8_0(x)[3], 127 * 65504.f);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    x[3] = bad;
    for (const float value : through_q8_0(x)) EXPECT_TRUE(std::isnan(value));
  }
}

// The header's functions are constant expressions.
constexpr std::uint8_t kBlock[34] = {0x00, 0x3c, 5};
static_assert(decode(Storage::q8_0, kBlock, 0) == 5.f);
static_assert(float_to_half(1.f) == 0x3c00 && half_to_float(0x0001) == 0x1p-24f);

}  // namespace
}  // namespace fourfold
