#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace kvd {
namespace {

using namespace std::string_literals;

TEST(Utf8Test, WellFormedTextIsValid) {
  for (const char* text : {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xe2\x82\xac!"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8Test, OverlongSurrogateTruncatedAndTooLargeSequencesAreInvalid) {
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xe2\x82", "\xe2\x82(",
        "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf0\x90\x80(", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8Test, OnlyShortestFormsOfScalarValuesAreWellFormed) {
  EXPECT_EQ(WellFormedBytes(""), 0u);
  EXPECT_EQ(WellFormedBytes("\0"s), 1u);
  EXPECT_EQ(WellFormedBytes("\u00e9x"), 2u);
  EXPECT_EQ(WellFormedBytes("\u20ac"), 3u);
  EXPECT_EQ(WellFormedBytes("\U0001f999"), 4u);
  EXPECT_EQ(WellFormedBytes("\xf4\x8f\xbf\xbf"), 4u);
  EXPECT_EQ(WellFormedBytes("\x80"), 0u) << "continuation alone";
  EXPECT_EQ(WellFormedBytes("\xc0\x80"), 0u) << "overlong";
  EXPECT_EQ(WellFormedBytes("\xe0\x9f\xbf"), 0u) << "overlong";
  EXPECT_EQ(WellFormedBytes("\xf0\x8f\xbf\xbf"), 0u) << "overlong";
  EXPECT_EQ(WellFormedBytes("\xed\xa0\x80"), 0u) << "surrogate";
  EXPECT_EQ(WellFormedBytes("\xf4\x90\x80\x80"), 0u) << "above U+10FFFF";
  EXPECT_EQ(WellFormedBytes("\xf5\x80\x80\x80"), 0u) << "above U+10FFFF";
  EXPECT_EQ(WellFormedBytes("\xe2\x82"), 0u) << "cut";
}

TEST(Utf8Test, EveryScalarValueThatIsWrittenIsWellFormed) {
  for (std::uint32_t code_point = 0; code_point <= 0x10ffff;
       code_point += code_point < 0x3000 ? 1 : 97) {
    if (code_point >= 0xd800 && code_point < 0xe000) continue;
    std::string text;
    AppendUtf8(code_point, text);
    EXPECT_EQ(WellFormedBytes(text), text.size()) << code_point;
    EXPECT_EQ(AnnouncedBytes(text[0]), text.size()) << code_point;
    EXPECT_EQ(IncompleteTailBytes(text), 0u) << code_point;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      EXPECT_EQ(IncompleteTailBytes("ab" + text.substr(0, cut)), cut) << code_point;
    }
  }
}

TEST(Utf8Test, InvalidBytesAtTheEndAreNotAnIncompleteCharacter) {
  EXPECT_EQ(IncompleteTailBytes(""), 0u);
  EXPECT_EQ(IncompleteTailBytes("\xff"), 0u);
  EXPECT_EQ(IncompleteTailBytes("\x80\x80"), 0u);
  EXPECT_EQ(IncompleteTailBytes("\xe0\x80"), 0u) << "would be overlong";
  EXPECT_EQ(IncompleteTailBytes("\xed\xa0"), 0u) << "would be a surrogate";
  EXPECT_EQ(IncompleteTailBytes("\xf4\x90"), 0u) << "would be above U+10FFFF";
  EXPECT_EQ(IncompleteTailBytes("\xe2\x82\xf0"), 1u) << "only the last lead byte counts";
}

}  // namespace
}  // namespace kvd
