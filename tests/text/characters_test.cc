#include "text/characters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace kvd {
namespace {

TEST(CharactersTest, WhiteSpaceIsThatOfPython) {
  for (const std::uint32_t c : {0x9, 0xd, 0x1c, 0x20, 0x85, 0xa0, 0x2003, 0x3000})
    EXPECT_TRUE(IsSpace(c)) << c;
  for (const std::uint32_t c : {0x0, 0x41, 0x200b, 0x110000}) EXPECT_FALSE(IsSpace(c)) << c;
}

TEST(CharactersTest, ControlFormatAndSeparatorCharactersAreNotPrintable) {
  for (const std::uint32_t c : {0x0, 0x7f, 0xa0, 0xad, 0x2028, 0xe000}) {
    EXPECT_FALSE(IsPrintable(c)) << c;
  }
  for (const std::uint32_t c : {0x20, 0x7e, 0xe9, 0x301, 0x5b57, 0x1f600}) {
    EXPECT_TRUE(IsPrintable(c)) << c;
  }
}

TEST(CharactersTest, CasesChangeAsInPython) {
  EXPECT_EQ(Upper("stra\u00dfe \u01c6"), "STRASSE \u01c4");
  EXPECT_EQ(Upper("\ufb03\u0390"), "FFI\u0399\u0308\u0301");
  EXPECT_EQ(Lower("\u0130X"), "i\u0307x");
  EXPECT_EQ(Capitalize("\u00e9A\u00c9"), "\u00c9a\u00e9");
  EXPECT_EQ(Capitalize("\u00dfA"), "Ssa");
  EXPECT_EQ(Capitalize(""), "");
}

TEST(CharactersTest, ASigmaAtTheEndOfAWordIsFinal) {
  EXPECT_EQ(Lower("\u0391\u03a3"), "\u03b1\u03c2");
  EXPECT_EQ(Lower("\u0391\u03a3\u0391"), "\u03b1\u03c3\u03b1");
  EXPECT_EQ(Lower("\u03a3"), "\u03c3");
  EXPECT_EQ(Lower("\u0391\u03a3.\u0391"), "\u03b1\u03c3.\u03b1");
}

TEST(CharactersTest, TrimRemovesUnicodeSpaceOnly) {
  EXPECT_EQ(Trim("\u00a0\t a b\u2003\n"), "a b");
  EXPECT_EQ(TrimLeft(" \u00e9 "), "\u00e9 ");
  EXPECT_EQ(TrimRight(" \u00e9 "), " \u00e9");
  EXPECT_EQ(Trim(" \n"), "");
}

TEST(CharactersTest, BytesOutsideCharactersCountAsCharacters) {
  const std::string bad = "a\xff\xc3";
  EXPECT_EQ(CodePointsOf(bad).size(), 3u);
  EXPECT_EQ(OffsetOf(bad, 2), 2u);
  EXPECT_EQ(OffsetOf(bad, 9), 3u);
  EXPECT_EQ(Trim(bad), bad);
}

}  // namespace
}  // namespace kvd
