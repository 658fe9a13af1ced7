// Safetensors headers: faults L8, L9, L10 and their siblings.
#include "formats/safetensors.hpp"

#include <gtest/gtest.h>

#include "support/reject.hpp"
#include "support/safetensors_writer.hpp"

namespace fourfold {
namespace {

using test::raw;
using test::safetensors_file;
using test::SafetensorsWriter;

result<std::vector<TensorInfo>> parse(const std::string& bytes) {
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(bytes.data()),
                                     reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  return parse_safetensors(exact);
}

// A file whose tensor 'w' has these fields, before 8 bytes of data.
result<std::vector<TensorInfo>> parse_fields(const std::string& fields) {
  return parse(safetensors_file("{\"w\":{" + fields + "}}", "12345678"));
}
result<std::vector<TensorInfo>> parse_offsets(const std::string& offsets) {
  return parse_fields(R"("dtype":"F32","shape":[2],"data_offsets":)" + offsets);
}
result<std::vector<TensorInfo>> parse_shape(const std::string& shape) {
  return parse_fields(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,8])");
}

TEST(Safetensors, ReadsTensors) {
  SafetensorsWriter writer;
  writer.tensor("a", "F32", {2, 3}, std::string(24, 'a')).tensor("b", "BF16", {5}, std::string(10, 'b'));
  writer.tensor("c", "F16", {}, "cc").tensor("d", "I64", {1, 2}, std::string(16, 'd')).tensor("e", "F32", {3, 0}, "");
  writer.tensor("f", "F4", {8}, "ffff");
  const std::string bytes = writer.bytes();
  const auto tensors = parse(bytes);
  ASSERT_TRUE(tensors) << tensors.error().message();
  ASSERT_EQ(tensors->size(), 6u);
  const auto& t = *tensors;
  EXPECT_EQ(t[0].name, "a");
  EXPECT_EQ(t[0].storage, Storage::f32);
  EXPECT_EQ(t[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(bytes.substr(t[0].offset, t[0].bytes), std::string(24, 'a'));
  EXPECT_EQ(t[1].storage, Storage::bf16);
  EXPECT_EQ(bytes.substr(t[1].offset, t[1].bytes), std::string(10, 'b'));
  EXPECT_EQ(t[2].storage, Storage::f16);
  EXPECT_TRUE(t[2].shape.empty());
  EXPECT_FALSE(t[3].storage);
  EXPECT_EQ(t[3].type_name, "I64");
  EXPECT_EQ(t[4].bytes, 0u);
  EXPECT_EQ(t[5].type_name, "F4");  // an unknown dtype is listed with the span it claims
  EXPECT_EQ(t[5].bytes, 4u);
}

TEST(Safetensors, AcceptsMetadataAnyOrderAndPadding) {
  const auto tensors =
      parse(safetensors_file(R"({"__metadata__":{"format":"pt"},"b":{"data_offsets":[4,8],"shape":[1],"dtype":"F32"},)"
                             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}      )",
                             "aaaabbbb"));
  ASSERT_TRUE(tensors) << tensors.error().message();
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_TRUE(parse(safetensors_file("{}", "")));
}

// L8: the header's length and the offsets.
TEST(SafetensorsFault, HeaderLengthStaysInTheFile) {
  for (const std::uint64_t bad : {~0ull - 2, ~0ull, 1ull << 63, 1ull << 32, 11ull})
    EXPECT_REJECT(parse(raw(bad) + "{}12345678"), Code::malformed, "its header should take");
  EXPECT_REJECT(parse("1234567"), Code::malformed, "it has 7 bytes; the header's size alone takes 8");
  EXPECT_REJECT(parse(""), Code::malformed, "it has 0 bytes");
  EXPECT_REJECT(parse(safetensors_file("", "")), Code::malformed, "does not begin with '{'");
  EXPECT_REJECT(parse(safetensors_file(" {}", "")), Code::malformed, "does not begin with '{'");
  EXPECT_REJECT(parse(safetensors_file("[]", "")), Code::malformed, "does not begin with '{'");
  EXPECT_REJECT(parse(safetensors_file("{", "}")), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse(safetensors_file(std::string("{}\0\0", 4), "")), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse(safetensors_file("{}{}", "")), Code::malformed, "not valid JSON");
}

TEST(SafetensorsFault, HugeHeadersAreNotRead) {
  std::vector<std::byte> big(std::size_t{34} << 20, std::byte{' '});
  const std::string size = raw<std::uint64_t>(std::uint64_t{33} << 20);
  std::copy_n(reinterpret_cast<const std::byte*>(size.data()), 8, big.begin());
  EXPECT_REJECT(parse_safetensors(big), Code::unsupported, "its header takes 34 603 008 bytes");
}

TEST(SafetensorsFault, OffsetsAreAnOrderedPairOfIntegers) {
  EXPECT_TRUE(parse_offsets("[0,8]"));
  for (const char* bad : {"[]", "[5]", "[8,0]", "[0,4,8]", "[0,0,0,0]"})
    EXPECT_REJECT(parse_offsets(bad), Code::malformed, "tensor 'w': 'data_offsets' is [");
  for (const char* bad : {R"(["a",1])", "[0,-8]", "[0,8.0]", "[0,8e0]", "[null,8]", "[true,8]", "[[0,8]]", "[{},8]",
                          "[0,18446744073709551616]"})
    EXPECT_REJECT(parse_offsets(bad), Code::malformed, "tensor 'w': 'data_offsets' holds ");
  for (const char* bad : {"8", "\"0,8\"", "null", "{}"})
    EXPECT_REJECT(parse_offsets(bad), Code::malformed, "tensor 'w': 'data_offsets' holds ");
  EXPECT_REJECT(parse_offsets("[0,16]"), Code::malformed, "take 8 bytes, its 'data_offsets' span 16");
  EXPECT_REJECT(parse_offsets("[18446744073709551608,18446744073709551615]"), Code::malformed, "span 7");
  EXPECT_REJECT(parse_offsets("[18446744073709551600,18446744073709551608]"), Code::malformed, "more than 2^64");
  EXPECT_REJECT(parse_offsets("[8,16]"), Code::malformed, "(truncated?)");
}

TEST(SafetensorsFault, ShapesAreIntegersWithoutOverflow) {
  for (const char* bad : {"[-2]", "[1e30]", "[2.0]", "[\"2\"]", "[9223372036854775808]", "[[2]]", "[null]"})
    EXPECT_REJECT(parse_shape(bad), Code::malformed, "tensor 'w': 'shape' holds ");
  EXPECT_REJECT(parse_shape("2"), Code::malformed, "'shape' holds 2; expected an array");
  EXPECT_REJECT(parse_shape("[1099511627776,1099511627776]"), Code::malformed, "more than 2^63 - 1 elements");
  EXPECT_REJECT(parse_shape("[4611686018427387904]"), Code::malformed, "take more than 2^63 - 1 bytes");
  EXPECT_REJECT(parse_shape("[0,4611686018427387904,4]"), Code::malformed, "more than 2^63 - 1 elements");
}

// L9: shape and dtype against the span.
TEST(SafetensorsFault, ShapeAndDtypeGiveTheSpan) {
  EXPECT_REJECT(parse_fields(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])"), Code::malformed,
                "tensor 'w': its shape and dtype take 4 000 000 bytes, its 'data_offsets' span 4");
  EXPECT_REJECT(parse_shape("[1]"), Code::malformed, "take 4 bytes, its 'data_offsets' span 8");
  EXPECT_REJECT(parse_shape("[0]"), Code::malformed, "take 0 bytes, its 'data_offsets' span 8");
  EXPECT_REJECT(parse_fields(R"("dtype":"I64","shape":[2],"data_offsets":[0,8])"), Code::malformed, "take 16 bytes");
}

// L10: aliases, holes and duplicates.
TEST(SafetensorsFault, TensorsCoverTheDataOnce) {
  const auto two = [](const std::string& first, const std::string& second, std::size_t data) {
    return parse(safetensors_file(R"({"k_proj":{"dtype":"U8","shape":[8],"data_offsets":)" + first +
                                      R"(},"v_proj":{"dtype":"U8","shape":[8],"data_offsets":)" + second + "}}",
                                  std::string(data, 'x')));
  };
  EXPECT_TRUE(two("[0,8]", "[8,16]", 16));
  EXPECT_TRUE(two("[8,16]", "[0,8]", 16));
  EXPECT_REJECT(two("[0,8]", "[0,8]", 8), Code::malformed, "tensors 'k_proj' and 'v_proj' overlap");
  EXPECT_REJECT(two("[0,8]", "[4,12]", 12), Code::malformed, "overlap");
  EXPECT_REJECT(two("[0,8]", "[16,24]", 24), Code::malformed, "tensor 'v_proj': it begins at byte ");
  EXPECT_REJECT(two("[8,16]", "[16,24]", 24), Code::malformed, "tensor 'k_proj': it begins at byte ");
  EXPECT_REJECT(two("[0,8]", "[8,16]", 17), Code::malformed, "the tensors end at byte ");
  EXPECT_REJECT(two("[0,8]", "[8,16]", 15), Code::malformed, "tensor 'v_proj': data ends at byte ");
  EXPECT_REJECT(parse(safetensors_file("{}", "x")), Code::malformed, "the tensors end at byte 10, the file at 11");
}

TEST(SafetensorsFault, NamesAndFieldsStandOnce) {
  const std::string entry = R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  EXPECT_REJECT(parse(safetensors_file("{\"w\":" + entry + ",\"w\":" + entry + "}", "12345678")), Code::malformed,
                "tensor 'w' stands there twice");
  EXPECT_REJECT(parse(safetensors_file(R"({"__metadata__":{},"__metadata__":{}})", "")), Code::malformed, "twice");
  EXPECT_REJECT(parse_fields(R"("dtype":"U8","dtype":"F32","shape":[2],"data_offsets":[0,8])"), Code::malformed,
                "tensor 'w': field 'dtype' stands there twice");
  EXPECT_REJECT(parse_fields(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"), Code::malformed,
                "field 'shape' stands there twice");
  EXPECT_REJECT(parse_fields(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8])"), Code::malformed,
                "field 'data_offsets' stands there twice");
}

TEST(SafetensorsFault, EntriesHaveExactlyTheirFields) {
  EXPECT_REJECT(parse_fields(R"("shape":[2],"data_offsets":[0,8])"), Code::malformed, "field 'dtype' is missing");
  EXPECT_REJECT(parse_fields(R"("dtype":"F32","data_offsets":[0,8])"), Code::malformed, "field 'shape' is missing");
  EXPECT_REJECT(parse_fields(R"("dtype":"F32","shape":[2])"), Code::malformed, "field 'data_offsets' is missing");
  EXPECT_REJECT(parse_fields(""), Code::malformed, "field 'dtype' is missing");
  EXPECT_REJECT(parse_fields(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"scale":1)"), Code::malformed,
                "tensor 'w': unknown field 'scale'");
  for (const char* bad : {"5", "null", "[]", "{}", "true"})
    EXPECT_REJECT(parse_fields(std::string(R"("dtype":)") + bad), Code::malformed, "'dtype' is ");
  for (const char* bad : {"5", "\"x\"", "[]", "null", "-1", "0.5", "false"})
    EXPECT_REJECT(parse(safetensors_file(std::string("{\"w\":") + bad + "}", "")), Code::malformed,
                  "tensor 'w': it is ");
  for (const char* bad : {"5", "\"x\"", "[]", "{\"a\":1}", "{\"a\":{}}", "{\"a\":[\"b\"]}"})
    EXPECT_REJECT(parse(safetensors_file(std::string("{\"__metadata__\":") + bad + "}", "")), Code::malformed,
                  "'__metadata__' holds ");
  for (const char* bad : {"\"\"", R"("a\u0000")", R"("a\nb")"})
    EXPECT_REJECT(parse(safetensors_file(std::string("{") + bad + ":{}}", "")), Code::malformed, "a tensor's name");
  EXPECT_REJECT(parse(safetensors_file("{\"\xff\":{}}", "")), Code::malformed, "not valid JSON");
}

TEST(SafetensorsFault, NestingCostsNothing) {
  const std::string open(1'000'000, '[');
  EXPECT_REJECT(parse(safetensors_file("{\"w\":" + open, "")), Code::malformed, "it is an array");
  EXPECT_REJECT(parse(safetensors_file("{\"w\":{\"shape\":" + open, "")), Code::malformed, "'shape' holds an array");
}

}  // namespace
}  // namespace fourfold
