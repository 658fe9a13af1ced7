#include "text/utf8.hpp"

#include <gtest/gtest.h>

namespace fourfold {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Utf8Stream, JoinsACharacterThatArrivesByteByByte) {  // fault C1
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0"), "");
  EXPECT_EQ(stream.push("\x9F"), "");
  EXPECT_EQ(stream.push("\xA6"), "");
  EXPECT_EQ(stream.push("\x99"), "🦙");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ReplacesALoneByteOnce) {  // fault C1
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\x80"), kBad);
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, ReplacesWhatNeverBecameACharacterOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.flush(), kBad);
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, GoesOnAfterAnIllFormedSequence) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.push("x"), kBad + "x");
  EXPECT_EQ(stream.push("\xE4\xB8"), "");
  EXPECT_EQ(stream.push("\xE4\xB8\xAD"), kBad + "中");
}

// The example of The Unicode Standard, table 3-8, and its neighbours.
TEST(Utf8Stream, ReplacesMaximalSubparts) {
  auto all = [](std::string_view bytes) {
    Utf8Stream stream;
    std::string out = stream.push(bytes);
    return out += stream.flush();
  };
  EXPECT_EQ(all("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + kBad + kBad + kBad + "b" + kBad + "c" + kBad + kBad + "d");
  EXPECT_EQ(all("\xC0\xAF"), kBad + kBad);                        // overlong
  EXPECT_EQ(all("\xE0\x80\x80"), kBad + kBad + kBad);             // overlong
  EXPECT_EQ(all("\xED\xA0\x80"), kBad + kBad + kBad);             // surrogate
  EXPECT_EQ(all("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad);  // above U+10FFFF
  EXPECT_EQ(all("\xFF"), kBad);
}

TEST(Utf8Stream, AnySplitGivesTheSameText) {
  const std::string text =
      "é中🦙\xFF"
      "a\xE4\xB8"
      "b\xF0\x9F\xA6";
  Utf8Stream whole;
  std::string expected = whole.push(text);
  expected += whole.flush();
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Utf8Stream stream;
    std::string got = stream.push(text.substr(0, cut));
    got += stream.push(text.substr(cut));
    got += stream.flush();
    EXPECT_EQ(got, expected) << "cut at " << cut;
  }
}

TEST(Utf8, EncodesWhatItDecodes) {
  for (const std::uint32_t code : {0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, code);
    const Utf8Unit unit = first_character(text);
    EXPECT_TRUE(unit.valid);
    EXPECT_EQ(unit.code, code);
    EXPECT_EQ(unit.length, text.size());
    EXPECT_EQ(valid_prefix(text + "\x80"), text.size());
  }
}

}  // namespace
}  // namespace fourfold
