// GGUF: what is read, and every way in which a header can lie. Faults L1, L4, L6 and their siblings.
#include "formats/gguf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "support/gguf_writer.hpp"
#include "support/reject.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

using test::GgufWriter;
using test::kArray;
using test::raw;
using test::raw_string;

constexpr std::uint64_t kTwo31 = std::uint64_t{1} << 31, kTwo32 = kTwo31 * 2, kTwo62 = std::uint64_t{1} << 62;

// Parses a whole file from memory that ends exactly at its last byte.
result<Gguf> parse(std::string_view bytes) {
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return parse_gguf({copy, bytes.size(), bytes.size()}, "t.gguf");
}
result<Gguf> parse(const GgufWriter& writer) { return parse(writer.bytes()); }

GgufWriter one_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type = test::kF32,
                      std::uint64_t offset = 0) {
  GgufWriter writer;
  writer.row("w", dims, type, offset).data(std::string(4096, 'x'));
  return writer;
}

TEST(Gguf, ReadsEveryValueType) {
  GgufWriter writer;
  writer.value("u8", test::kU8, raw<std::uint8_t>(200)).value("i8", test::kI8, raw<std::int8_t>(-100));
  writer.u16("u16", 60000).value("i16", test::kI16, raw<std::int16_t>(-30000));
  writer.u32("u32", 4000000000u).i32("i32", -7).f32("f32", 0.1f).boolean("yes", true).boolean("no", false);
  writer.string("text", std::string_view("a\0b", 3)).u64("u64", ~0ull).value("i64", test::kI64, raw<std::int64_t>(-9));
  writer.value("f64", test::kF64, raw(0.1)).strings("words", {"a", "", "b c"});
  const auto gguf = parse(writer);
  ASSERT_TRUE(gguf) << gguf.error().message();
  const Metadata& m = gguf->metadata;
  EXPECT_EQ(*m.get_int("u8"), 200);
  EXPECT_EQ(*m.get_int("i8"), -100);
  EXPECT_EQ(*m.get_int("u16"), 60000);
  EXPECT_EQ(*m.get_int("i16"), -30000);
  EXPECT_EQ(*m.get_int("u32"), 4000000000);
  EXPECT_EQ(*m.get_int("i32"), -7);
  EXPECT_EQ(*m.get_float("f32"), static_cast<double>(0.1f));
  EXPECT_EQ(*m.get_bool("yes"), true);
  EXPECT_EQ(*m.get_bool("no"), false);
  EXPECT_EQ(*m.get_string("text"), std::string_view("a\0b", 3));
  EXPECT_EQ(std::get<std::uint64_t>(*m.find("u64")), ~0ull);
  EXPECT_EQ(*m.get_int("i64"), -9);
  EXPECT_EQ(*m.get_float("f64"), 0.1);
  const auto words = *m.get_strings("words");
  EXPECT_EQ(std::vector<std::string_view>(words.begin(), words.end()), (std::vector<std::string_view>{"a", "", "b c"}));
  EXPECT_EQ(m.entries().size(), 14u);
  EXPECT_EQ(m.entries()[5].key, "i32");
}

template <class T>
void expect_ints(std::uint32_t type, const std::vector<T>& values) {
  const auto gguf = parse(GgufWriter().array("a", type, values));
  ASSERT_TRUE(gguf) << gguf.error().message();
  const auto met = *gguf->metadata.get_ints("a");
  EXPECT_EQ(std::vector<std::int64_t>(met.begin(), met.end()), std::vector<std::int64_t>(values.begin(), values.end()));
}

TEST(Gguf, ReadsArraysOfEveryNumberType) {
  expect_ints<std::uint8_t>(test::kU8, {0, 255});
  expect_ints<std::int8_t>(test::kI8, {-128, 127});
  expect_ints<std::uint16_t>(test::kU16, {0, 65535});
  expect_ints<std::int16_t>(test::kI16, {-32768, 32767});
  expect_ints<std::uint32_t>(test::kU32, {0, 4294967295u});
  expect_ints<std::int32_t>(test::kI32, {-2147483647 - 1, 1});
  expect_ints<std::uint64_t>(test::kU64, {0, (1ull << 63) - 1});
  expect_ints<std::int64_t>(test::kI64, {-(1ll << 62), 5});
  expect_ints<std::uint8_t>(test::kBool, {0, 1, 1});
  expect_ints<std::int32_t>(test::kI32, {});
  const auto gguf =
      parse(GgufWriter().array<float>("f", test::kF32Value, {1.5f, NAN}).array<double>("d", test::kF64, {0.1}));
  ASSERT_TRUE(gguf);
  EXPECT_EQ(gguf->metadata.get_floats("f")->at(0), 1.5);
  EXPECT_TRUE(std::isnan(gguf->metadata.get_floats("f")->at(1)));
  EXPECT_EQ(gguf->metadata.get_floats("d")->at(0), 0.1);
}

TEST(Gguf, MetadataOutlivesTheParsedFile) {
  Metadata kept;
  {
    const auto gguf = parse(GgufWriter().strings("words", {"alpha", "beta"}).string("s", "gamma"));
    ASSERT_TRUE(gguf);
    kept = gguf->metadata;
  }
  EXPECT_EQ((*kept.get_strings("words"))[1], "beta");
  EXPECT_EQ(*kept.get_string("s"), "gamma");
}

TEST(Gguf, ReadsTensorsOutermostDimensionFirst) {
  GgufWriter writer;
  writer.string("general.architecture", "llama").tensor("a", {3, 64}, test::kQ8_0, std::string(3 * 68, 'a'));
  writer.tensor("b", {5}, test::kF16, std::string(10, 'b'))
      .tensor("c", {2, 3, 4, 256}, test::kIq2Xxs, std::string(24 * 66, 'c'));
  const std::string bytes = writer.bytes();
  const auto gguf = parse(bytes);
  ASSERT_TRUE(gguf) << gguf.error().message();
  const auto& [a, b, c] = std::tie(gguf->tensors[0], gguf->tensors[1], gguf->tensors[2]);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{3, 64}));
  EXPECT_EQ(a.storage, Storage::q8_0);
  EXPECT_EQ(a.type_name, "Q8_0");
  EXPECT_EQ(a.bytes, 204u);
  EXPECT_EQ(bytes.substr(a.offset, 204), std::string(204, 'a'));
  EXPECT_EQ(bytes.substr(b.offset, 10), std::string(10, 'b'));
  EXPECT_EQ(b.offset % 32, 0u);
  EXPECT_FALSE(c.storage);
  EXPECT_EQ(c.type_name, "IQ2_XXS");
  EXPECT_EQ(c.bytes, 24u * 66);
}

TEST(Gguf, ReadsVersion2AndFilesWithoutTensors) {
  const auto gguf = parse(GgufWriter().version(2).string("general.architecture", "llama"));
  ASSERT_TRUE(gguf) << gguf.error().message();
  EXPECT_EQ(gguf->version, 2u);
  EXPECT_TRUE(gguf->tensors.empty());
  EXPECT_TRUE(parse(GgufWriter()));
}

TEST(Gguf, ListsTensorsOfUnknownTypes) {
  const auto gguf = parse(one_tensor({7}, 4711));
  ASSERT_TRUE(gguf) << gguf.error().message();
  EXPECT_EQ(gguf->tensors[0].type_name, "type 4711");
  EXPECT_FALSE(gguf->tensors[0].storage);
  EXPECT_EQ(gguf->tensors[0].bytes, 0u);
  EXPECT_TRUE(parse(one_tensor({7}, 0xffffffffu)));
  EXPECT_REJECT(parse(one_tensor({7}, 4711, 1 << 20)), Code::malformed, "(truncated?)");
}

TEST(Gguf, RefusesOtherFilesByName) {
  EXPECT_REJECT(parse("PK\3\4 something else"), Code::malformed,
                "t.gguf: not a GGUF file: it begins with 'PK\\x03\\x04'");
  EXPECT_REJECT(parse("GG"), Code::malformed, "magic: data ends at byte 4, the file at 2");
  EXPECT_REJECT(parse(GgufWriter().version(1)), Code::unsupported, "GGUF version 1; versions 2 and 3 are read");
  EXPECT_REJECT(parse(GgufWriter().version(4)), Code::unsupported, "GGUF version 4");
  EXPECT_REJECT(parse(GgufWriter().version(0)), Code::unsupported, "GGUF version 0");
  EXPECT_REJECT(parse(GgufWriter().version(3u << 24)), Code::unsupported, "big-endian");
}

// L1: sizes that wrap modulo 2^64.
TEST(GgufFault, TensorSizesMayNotWrap) {
  EXPECT_REJECT(parse(one_tensor({kTwo31, kTwo31})), Code::malformed,
                "tensor 'w': its 4 611 686 018 427 387 904 elements");
  EXPECT_REJECT(parse(one_tensor({kTwo32, kTwo32})), Code::malformed, "multiply to more than 2^63 - 1");
  EXPECT_REJECT(parse(one_tensor({kTwo31, kTwo31, kTwo31, 2})), Code::malformed, "multiply to more than 2^63 - 1");
  EXPECT_REJECT(parse(one_tensor({kTwo62, 2}, 27)), Code::malformed, "multiply to more than 2^63 - 1");
  EXPECT_REJECT(parse(one_tensor({kTwo62 * 2 - 32}, test::kQ8_0)), Code::malformed, "take more than 2^63 - 1 bytes");
  EXPECT_REJECT(parse(one_tensor({1024}, test::kF32, ~0ull - 4095 + 4064)), Code::malformed,
                "add up to more than 2^64");
  EXPECT_REJECT(parse(one_tensor({1024}, test::kF32, ~0ull - 31)), Code::malformed, "add up to more than 2^64");
}

TEST(GgufFault, SumsOfTensorSizesMayNotWrap) {
  GgufWriter writer;
  writer.row("a", {kTwo62 / 4}, test::kF32, 0).row("b", {kTwo62 / 8}, 28, kTwo62).data(std::string(64, 'x'));
  EXPECT_REJECT(parse(writer), Code::malformed, "tensor 'a': data ends at byte 4 611 686 018 427 388 0");
}

TEST(GgufFault, DimensionsHaveToMakeSense) {
  EXPECT_REJECT(parse(one_tensor({})), Code::malformed, "it has 0 dimensions; expected 1 to 4");
  EXPECT_REJECT(parse(one_tensor({1, 1, 1, 1, 1})), Code::malformed, "it has 5 dimensions");
  EXPECT_REJECT(parse(one_tensor({4, 0})), Code::malformed, "dimension 1 is 0; expected 1 to 2^63 - 1");
  EXPECT_REJECT(parse(one_tensor({~0ull})), Code::malformed, "dimension 0 is 18446744073709551615");
  EXPECT_REJECT(parse(one_tensor({48, 2}, test::kQ8_0)), Code::malformed, "rows of 48 elements are not a multiple");
  GgufWriter many;
  many.counts(1, 0).data(raw_string("w") + raw(0xffffffffu));
  EXPECT_REJECT(parse(many.header() + raw_string("w") + raw(0xffffffffu) + std::string(64, '\1')), Code::malformed,
                "it has 4294967295 dimensions");
}

TEST(GgufFault, TensorsLieInsideTheFileAlignedAndApart) {
  EXPECT_REJECT(parse(one_tensor({1025})), Code::malformed,
                "t.gguf: tensor 'w': data ends at byte 4 164, the file at 4 160 (truncated?)");
  EXPECT_REJECT(parse(one_tensor({4}, test::kF32, 4112)), Code::malformed,
                "offset 4 112 is not a multiple of the alignment 32");
  EXPECT_TRUE(parse(one_tensor({1024})));
  GgufWriter overlap;
  overlap.row("v", {16}, test::kF32, 32).row("k", {16}, test::kF32, 0).data(std::string(128, 'x'));
  EXPECT_REJECT(parse(overlap), Code::malformed, "tensors 'k' and 'v' overlap");
  GgufWriter alias;
  alias.row("k", {16}, test::kF32, 0).row("v", {16}, test::kF32, 0).data(std::string(128, 'x'));
  EXPECT_REJECT(parse(alias), Code::malformed, "overlap");
  GgufWriter gap;
  gap.row("k", {16}, test::kF32, 0).row("v", {16}, test::kF32, 128).data(std::string(192, 'x'));
  EXPECT_TRUE(parse(gap));  // padding of any size between tensors is harmless
}

// L4: the alignment.
TEST(GgufFault, AlignmentIsAPowerOfTwoOfTheRightType) {
  for (const std::uint32_t bad : {0u, 1u, 3u, 4u, 33u, 1u << 17, 1u << 30, 1u << 31, ~0u}) {
    EXPECT_REJECT(parse(GgufWriter().u32("general.alignment", bad)), Code::malformed,
                  "key 'general.alignment' is " + std::to_string(bad) + "; expected an unsigned power of two");
  }
  EXPECT_REJECT(parse(GgufWriter().i32("general.alignment", 32)), Code::malformed, "is integer; expected");
  EXPECT_REJECT(parse(GgufWriter().string("general.alignment", "32")), Code::malformed, "is string; expected");
  EXPECT_REJECT(parse(GgufWriter().f32("general.alignment", 32)), Code::malformed, "is float; expected");
  EXPECT_REJECT(parse(GgufWriter().boolean("general.alignment", true)), Code::malformed, "is boolean; expected");
  EXPECT_REJECT(parse(GgufWriter().array<std::uint32_t>("general.alignment", test::kU32, {32})), Code::malformed,
                "is array of integers; expected");
  for (const std::uint32_t good : {8u, 32u, 256u, 65536u}) {
    const auto gguf = parse(GgufWriter()
                                .alignment(good)
                                .tensor("a", {5}, test::kF32, std::string(20, 'a'))
                                .tensor("b", {5}, test::kF32, std::string(20, 'b')));
    ASSERT_TRUE(gguf) << gguf.error().message();
    EXPECT_EQ(gguf->tensors[1].offset % good, 0u);
  }
}

// L6: counts and lengths are compared with the bytes that are left.
TEST(GgufFault, CountsAndLengthsFitIntoTheFile) {
  const auto head = [](std::uint64_t tensors, std::uint64_t keys) {
    return GgufWriter().counts(tensors, keys).header();
  };
  const std::uint64_t two48 = std::uint64_t{1} << 48, two63 = std::uint64_t{1} << 63;
  EXPECT_REJECT(parse(head(0, 1) + raw(two48 - 1)), Code::malformed, "key count: 1 of at least 14 bytes each");
  EXPECT_REJECT(parse(head(0, 1) + raw(two48 - 1) + "123456"), Code::malformed,
                "a key's name: its length is 281 474 976 710 655");
  EXPECT_REJECT(parse(head(0, kTwo32)), Code::malformed, "key count: 4 294 967 296 of at least 14 bytes each");
  EXPECT_REJECT(parse(head(0, ~0ull)), Code::malformed, "key count");
  EXPECT_REJECT(parse(head(kTwo32, 0)), Code::malformed, "tensor count: 4 294 967 296 of at least 33 bytes each");
  EXPECT_REJECT(parse(head(~0ull, ~0ull)), Code::malformed, "tensor count");
  const auto value = [&](std::uint32_t type, const std::string& payload) {
    return parse(GgufWriter().value("k", type, payload).header() + std::string(16, '\0'));
  };
  EXPECT_REJECT(value(test::kString, raw(two63)), Code::malformed, "value of key 'k': data ends at byte 9 223");
  EXPECT_REJECT(value(test::kString, raw(~0ull)), Code::malformed, "data ends at byte 2^64 or later");
  EXPECT_REJECT(value(kArray, raw<std::uint32_t>(kArray) + raw(two63)), Code::malformed, "value of key 'k'");
  EXPECT_REJECT(value(kArray, raw<std::uint32_t>(test::kU8) + raw(two63)), Code::malformed, "do not fit");
  EXPECT_REJECT(value(kArray, raw<std::uint32_t>(test::kU64) + raw(two63 / 4)), Code::malformed, "do not fit");
  EXPECT_REJECT(value(kArray, raw<std::uint32_t>(test::kString) + raw(two63 / 4)), Code::malformed, "do not fit");
  EXPECT_REJECT(value(kArray, raw<std::uint32_t>(test::kString) + raw(std::uint64_t{1}) + raw(two48)), Code::malformed,
                "value of key 'k'");
}

TEST(GgufFault, ValueTypesAreKnown) {
  EXPECT_REJECT(parse(GgufWriter().value("k", 13, raw(0ull))), Code::malformed,
                "value of key 'k': value type 13 is not one");
  EXPECT_REJECT(parse(GgufWriter().value("k", ~0u, raw(0ull))), Code::malformed, "value type 4294967295");
  EXPECT_REJECT(parse(GgufWriter().value("k", kArray, raw(13u) + raw(0ull))), Code::malformed, "value type 13");
  const std::string nested = raw<std::uint32_t>(kArray) + raw(1ull) + raw<std::uint32_t>(test::kU8) + raw(1ull) + "x";
  EXPECT_REJECT(parse(GgufWriter().value("k", kArray, nested)), Code::unsupported, "an array of arrays");
  EXPECT_REJECT(parse(GgufWriter().value("k", test::kBool, raw<std::uint8_t>(2))), Code::malformed,
                "a boolean is 2; expected 0 or 1");
  EXPECT_REJECT(parse(GgufWriter().array<std::uint8_t>("k", test::kBool, {0, 1, 255})), Code::malformed,
                "a boolean is 255");
  EXPECT_REJECT(parse(GgufWriter().array<std::uint64_t>("k", test::kU64, {1ull << 63})), Code::malformed,
                "an element is 9223372036854775808; expected integers below 2^63");
}

TEST(GgufFault, NamesArePlainAndUnique) {
  for (const std::string_view bad : {std::string_view("a\0b", 3), std::string_view("a\nb"), std::string_view("\xff"),
                                     std::string_view("\xc3"), std::string_view("\xed\xa0\x80")}) {
    EXPECT_REJECT(parse(GgufWriter().u32(bad, 1)), Code::malformed, "is not plain UTF-8 text");
    EXPECT_REJECT(parse(GgufWriter().tensor(bad, {1}, test::kF32, "data")), Code::malformed, "is not plain UTF-8 text");
  }
  EXPECT_REJECT(parse(GgufWriter().u32("", 1)), Code::malformed, "its length is 0; expected 1 to 65 535");
  EXPECT_REJECT(parse(GgufWriter().u32(std::string(65536, 'a'), 1)), Code::malformed, "its length is 65 536");
  EXPECT_REJECT(parse(GgufWriter().tensor("", {1}, test::kF32, "data")), Code::malformed,
                "a tensor's name: its length is 0");
  EXPECT_TRUE(parse(GgufWriter().u32(std::string(65535, 'a'), 1)));
  EXPECT_REJECT(parse(GgufWriter().u32("k", 1).u32("k", 1)), Code::malformed, "key 'k' stands there twice");
  EXPECT_REJECT(parse(GgufWriter().tensor("w", {1}, test::kF32, "data").tensor("w", {1}, test::kF32, "data")),
                Code::malformed, "tensor 'w' stands there twice");
}

// Every prefix of a good file is refused, whichever field it ends in.
TEST(GgufFault, EveryTruncationIsRefused) {
  GgufWriter writer;
  writer.string("general.architecture", "llama")
      .strings("words", {"a", "bc"})
      .array<float>("f", test::kF32Value, {1, 2});
  writer.boolean("b", true).u32("general.alignment", 32).tensor("w", {2, 32}, test::kQ8_0, std::string(68, 'x'));
  const std::string bytes = writer.bytes();
  ASSERT_TRUE(parse(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto gguf = parse(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(gguf) << size;
    ASSERT_EQ(gguf.error().code(), Code::malformed) << gguf.error().message();
  }
}

// read_gguf() asks for more of the file until the header is complete.
TEST(ReadGguf, ReadsHeadersOfManyMebibytes) {
  const test::TempFolder folder;
  std::vector<std::string> words(200000);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = "word number " + std::to_string(i);
  const std::string bytes =
      GgufWriter().strings("words", words).tensor("w", {4}, test::kF32, std::string(16, 'x')).bytes();
  ASSERT_GT(bytes.size(), std::size_t{4} << 20);
  const auto file = File::open(folder.write("big.gguf", bytes));
  const auto gguf = read_gguf(*file);
  ASSERT_TRUE(gguf) << gguf.error().message();
  EXPECT_EQ((*gguf->metadata.get_strings("words"))[199999], "word number 199999");
  EXPECT_EQ(bytes.substr(gguf->tensors[0].offset), std::string(16, 'x'));
}

TEST(ReadGguf, RefusesHugeHeadersWithoutReadingThem) {
  const test::TempFolder folder;
  const std::string head = GgufWriter().value("k", test::kString, raw(std::uint64_t{1} << 33)).header();
  const std::string path = folder.write("sparse.gguf", head);
  std::filesystem::resize_file(path, std::uint64_t{1} << 34);
  const auto file = File::open(path);
  EXPECT_REJECT(read_gguf(*file), Code::unsupported, "sparse.gguf: its header needs more than 33 554 432 bytes");
}

}  // namespace
}  // namespace fourfold
