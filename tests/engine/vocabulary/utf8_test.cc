#include "engine/vocabulary/utf8.h"

#include <gtest/gtest.h>

#include "engine/vocabulary/byte_alphabet.h"

namespace kvd {
namespace {

using namespace std::string_literals;

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

TEST(Utf8Test, ATailThatCanBecomeNoCharacterIsNotIncomplete) {
  EXPECT_EQ(IncompleteTailBytes(""), 0u);
  EXPECT_EQ(IncompleteTailBytes("\xff"), 0u);
  EXPECT_EQ(IncompleteTailBytes("\x80\x80"), 0u);
  EXPECT_EQ(IncompleteTailBytes("\xe0\x80"), 0u) << "would be overlong";
  EXPECT_EQ(IncompleteTailBytes("\xed\xa0"), 0u) << "would be a surrogate";
  EXPECT_EQ(IncompleteTailBytes("\xf4\x90"), 0u) << "would be above U+10FFFF";
  EXPECT_EQ(IncompleteTailBytes("\xe2\x82\xf0"), 1u) << "only the last lead byte counts";
}

TEST(Utf8Test, AWellFormedTextIsItsOwnView) {
  std::string text = "a\u20ac\U0001f999"s + '\0';
  WellFormedText view(text);
  EXPECT_EQ(view.view().data(), text.data());
  EXPECT_EQ(view.OriginalOffset(4), 4u);
}

TEST(Utf8Test, EachStrayByteIsReplacedAndOffsetsLeadBackToTheOriginal) {
  std::string text = "a\xff\u20ac\x80\x81z";
  WellFormedText view(text);
  EXPECT_EQ(view.view(), "a\ufffd\u20ac\ufffd\ufffdz");
  std::size_t offsets[][2] = {{0, 0}, {1, 1}, {4, 2}, {7, 5}, {10, 6}, {13, 7}, {14, 8}};
  for (auto [in_view, original] : offsets)
    EXPECT_EQ(view.OriginalOffset(in_view), original) << in_view;
}

TEST(ByteAlphabetTest, EveryByteHasACharacterOfItsOwnAndComesBackFromIt) {
  std::string all;
  std::string decoded;
  for (int byte = 0; byte < 256; ++byte) all.append(ByteCharacter(static_cast<std::uint8_t>(byte)));
  AppendDecodedBytes(all, decoded);
  ASSERT_EQ(decoded.size(), 256u);
  for (std::size_t byte = 0; byte < 256; ++byte)
    EXPECT_EQ(static_cast<unsigned char>(decoded[byte]), byte);
}

TEST(ByteAlphabetTest, TheCharactersAreThoseOfGpt2) {
  EXPECT_EQ(ByteCharacter(' '), "\u0120");
  EXPECT_EQ(ByteCharacter('\n'), "\u010a");
  EXPECT_EQ(ByteCharacter(0), "\u0100");
  EXPECT_EQ(ByteCharacter('~'), "~");
  EXPECT_EQ(ByteCharacter(0x7f), "\u0121");
  EXPECT_EQ(ByteCharacter(0xad), "\u0143");
  EXPECT_EQ(ByteCharacter(0xff), "\u00ff");
}

TEST(ByteAlphabetTest, WhatIsNoCharacterOfTheAlphabetStaysAsItIs) {
  std::string decoded;
  AppendDecodedBytes("a \u20ac\u0144\xff", decoded);
  EXPECT_EQ(decoded, "a \u20ac\u0144\xff");
}

}  // namespace
}  // namespace kvd
