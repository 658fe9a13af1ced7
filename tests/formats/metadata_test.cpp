// Typed access to metadata, and JSON flattened into it.
#include "formats/metadata.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/reject.hpp"

namespace fourfold {
namespace {

Metadata example() {
  Metadata m("x.gguf", nullptr);
  m.add("int", std::int64_t{-3});
  m.add("big", ~std::uint64_t{0});
  m.add("float", 0.5);
  m.add("bool", true);
  m.add("text", std::string_view("hello"));
  m.add("ints", std::vector<std::int64_t>{1, 2});
  m.add("floats", std::vector<double>{0.5});
  m.add("words", std::vector<std::string_view>{"a"});
  m.add("none", std::vector<std::string_view>{});
  return m;
}

TEST(Metadata, KeepsOrderAndRefusesASecondValue) {
  Metadata m = example();
  EXPECT_FALSE(m.add("int", true));
  EXPECT_EQ(*m.get_int("int"), -3);
  EXPECT_EQ(m.entries().size(), 9u);
  EXPECT_EQ(m.entries()[2].key, "float");
  EXPECT_TRUE(m.has("bool"));
  EXPECT_EQ(m.find("nothing"), nullptr);
}

TEST(Metadata, GettersNameTheKeyWhatTheyMetAndWhatTheyExpected) {
  const Metadata m = example();
  EXPECT_REJECT(m.get_int("nothing"), Code::not_found, "x.gguf: key 'nothing' is missing; expected an integer");
  EXPECT_REJECT(m.get_int("text"), Code::malformed, "x.gguf: key 'text' is the string 'hello'; expected an integer");
  EXPECT_REJECT(m.get_int("float"), Code::malformed, "key 'float' is the float 0.5");
  EXPECT_REJECT(m.get_int("bool"), Code::malformed, "key 'bool' is the boolean true");
  EXPECT_REJECT(m.get_int("big"), Code::malformed,
                "key 'big' is the integer 18446744073709551615; expected an integer below 2^63");
  EXPECT_REJECT(m.get_float("bool"), Code::malformed, "expected a number");
  EXPECT_REJECT(m.get_bool("int"), Code::malformed, "key 'int' is the integer -3; expected a boolean");
  EXPECT_REJECT(m.get_string("ints"), Code::malformed, "key 'ints' is an array of integers; expected a string");
  EXPECT_REJECT(m.get_ints("floats"), Code::malformed, "key 'floats' is an array of numbers; expected an array of int");
  EXPECT_REJECT(m.get_ints("int"), Code::malformed, "expected an array of integers");
  EXPECT_REJECT(m.get_floats("words"), Code::malformed, "expected an array of numbers");
  EXPECT_REJECT(m.get_strings("text"), Code::malformed, "expected an array of strings");
  EXPECT_REJECT(m.get_strings("nothing"), Code::not_found, "expected an array of strings");
}

TEST(Metadata, IntegersCountAsFloats) {
  const Metadata m = example();
  EXPECT_EQ(*m.get_float("int"), -3.0);
  EXPECT_EQ(*m.get_float("big"), 18446744073709551615.0);
  EXPECT_EQ(*m.get_floats("ints"), (std::vector<double>{1, 2}));
}

TEST(Metadata, FallbacksReplaceMissingKeysOnly) {
  const Metadata m = example();
  EXPECT_EQ(*m.get_int("nothing", 7), 7);
  EXPECT_EQ(*m.get_int("int", 7), -3);
  EXPECT_EQ(*m.get_float("nothing", 0.25), 0.25);
  EXPECT_EQ(*m.get_bool("nothing", true), true);
  EXPECT_EQ(*m.get_string("nothing", "x"), "x");
  EXPECT_REJECT(m.get_int("text", 7), Code::malformed, "expected an integer");
}

TEST(Metadata, AnEmptyArrayHasEveryType) {
  const Metadata m = example();
  EXPECT_TRUE(m.get_ints("none")->empty());
  EXPECT_TRUE(m.get_floats("none")->empty());
  EXPECT_TRUE(m.get_strings("none")->empty());
}

TEST(Json, FlattensObjects) {
  const auto m =
      metadata_from_json(R"({"a": 1, "b": {"c": -2, "d": {"e": 0.5}}, "f": "x\n\u00e9", "g": true, "h": 9e2})");
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(*m->get_int("a"), 1);
  EXPECT_EQ(*m->get_int("b.c"), -2);
  EXPECT_EQ(*m->get_float("b.d.e"), 0.5);
  EXPECT_EQ(*m->get_string("f"), "x\n\xc3\xa9");
  EXPECT_EQ(*m->get_bool("g"), true);
  EXPECT_EQ(*m->get_float("h"), 900);
  EXPECT_EQ(m->entries().size(), 6u);
}

TEST(Json, NullMeansAbsent) {
  const auto m = metadata_from_json(R"({"a": null, "b": {"c": null}, "d": {}})");
  ASSERT_TRUE(m);
  EXPECT_TRUE(m->entries().empty());
}

TEST(Json, ArraysOfScalarsOfOneKindBecomeArrays) {
  const auto m = metadata_from_json(
      R"({"i": [1, -2], "b": [true, false], "f": [1, 0.5], "s": ["x", "y"], "e": [], "o": {"n": [3]}})");
  ASSERT_TRUE(m) << m.error().message();
  const auto ints = [&](const char* key) {
    const auto span = *m->get_ints(key);
    return std::vector<std::int64_t>(span.begin(), span.end());
  };
  EXPECT_EQ(ints("i"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(ints("b"), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(ints("o.n"), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(*m->get_floats("f"), (std::vector<double>{1, 0.5}));
  EXPECT_EQ((*m->get_strings("s"))[1], "y");
  EXPECT_TRUE(m->get_strings("e")->empty());
}

TEST(Json, OtherArraysKeepTheirText) {
  const auto m = metadata_from_json(
      R"({"a": [1, "x", {"k": [null, true], "l\"": -0.5}], "n": [null], "t": [[1, 2], []], "m": [true, 1.5], "z": 1})");
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(*m->get_string("a"), R"([1,"x",{"k":[null,true],"l\"":-0.5}])");
  EXPECT_EQ(*m->get_string("n"), "[null]");
  EXPECT_EQ(*m->get_string("t"), "[[1,2],[]]");
  EXPECT_EQ(*m->get_string("m"), "[true,1.5]");
  EXPECT_EQ(*m->get_int("z"), 1);
}

TEST(Json, AcceptsSpecialFloatsInBothNotations) {
  const auto m = metadata_from_json(
      R"({"a": NaN, "b": -Infinity, "c": {"__float__": "Infinity"}, "d": [Infinity, 1, { "__float__" : "-Infinity" }],
          "e": "NaN, {\"__float__\": \"NaN\"} -Infinity", "f": {"__float__": "other"}})");
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_TRUE(std::isnan(*m->get_float("a")));
  EXPECT_EQ(*m->get_float("b"), -INFINITY);
  EXPECT_EQ(*m->get_float("c"), INFINITY);
  EXPECT_EQ(*m->get_floats("d"), (std::vector<double>{INFINITY, 1, -INFINITY}));
  EXPECT_EQ(*m->get_string("e"), "NaN, {\"__float__\": \"NaN\"} -Infinity");
  EXPECT_EQ(*m->get_string("f.__float__"), "other");
}

TEST(Json, IntegersBeyond64BitsAreFloats) {
  const auto m = metadata_from_json(R"({"a": 1000000000000000019884624838656, "b": [18446744073709551615]})");
  ASSERT_TRUE(m);
  EXPECT_EQ(*m->get_float("a"), 1000000000000000019884624838656.0);
  EXPECT_EQ(*m->get_floats("b"), (std::vector<double>{18446744073709551615.0}));
}

TEST(Json, RefusesWhatIsNoJsonObject) {
  const auto parse = [](std::string_view text) { return metadata_from_json(text, "config.json"); };
  EXPECT_REJECT(parse(""), Code::malformed, "config.json: not valid JSON at line 1, column 0, near ''");
  EXPECT_REJECT(parse("[1]"), Code::malformed, "it is not a JSON object");
  EXPECT_REJECT(parse("3"), Code::malformed, "it is not a JSON object");
  EXPECT_REJECT(parse("NaN"), Code::malformed, "it is not a JSON object");
  EXPECT_REJECT(parse("null"), Code::malformed, "it is not a JSON object");
  EXPECT_REJECT(parse("{\"a\": 1,\n \"b\": }"), Code::malformed, "not valid JSON at line 2, column 7, near");
  EXPECT_REJECT(parse("{\"a\": 1} x"), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse("{\"a\": 1e999}"), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse("{\"a\": \"\xff\"}"), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse("{\"a\": \"\\ud800\"}"), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse(std::string_view("{}\0x", 4)), Code::malformed, "it holds a zero byte");
  EXPECT_REJECT(parse("{\"a\": 01}"), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse("{\"a\": Inf}"), Code::malformed, "not valid JSON");
  EXPECT_REJECT(parse("{\"a\": \"b"), Code::malformed, "not valid JSON");
}

TEST(Json, RefusesTwoValuesForOneKey) {
  EXPECT_REJECT(metadata_from_json(R"({"a": 1, "a": 2})"), Code::malformed, "key 'a' stands there twice");
  EXPECT_REJECT(metadata_from_json(R"({"a": {"b": 1}, "a.b": 2})"), Code::malformed, "key 'a.b' stands there twice");
}

TEST(Json, LimitsNesting) {
  const auto nested = [](int levels, const std::string& open, const std::string& close) {
    std::string text = "{\"a\": ";
    for (int i = 0; i < levels; ++i) text += open;
    text += "1";
    for (int i = 0; i < levels; ++i) text += close;
    return text + "}";
  };
  EXPECT_TRUE(metadata_from_json(nested(63, "[", "]")));
  EXPECT_TRUE(metadata_from_json(nested(63, "{\"b\": ", "}")));
  EXPECT_REJECT(metadata_from_json(nested(64, "[", "]")), Code::malformed, "nested deeper than 64 levels");
  EXPECT_REJECT(metadata_from_json(nested(64, "{\"b\": ", "}")), Code::malformed, "nested deeper than 64 levels");
  EXPECT_REJECT(metadata_from_json(std::string(1'000'000, '[')), Code::malformed, "not a JSON object");
  EXPECT_REJECT(metadata_from_json("{\"a\":" + std::string(1'000'000, '[')), Code::malformed, "nested deeper");
}

TEST(Json, TextOutlivesItsSource) {
  Metadata kept;
  {
    const std::string text = R"({"a": "a string that is longer than a small buffer", "b": ["c"]})";
    kept = *metadata_from_json(text);
  }
  EXPECT_EQ(*kept.get_string("a"), "a string that is longer than a small buffer");
  EXPECT_EQ((*kept.get_strings("b"))[0], "c");
}

}  // namespace
}  // namespace fourfold
