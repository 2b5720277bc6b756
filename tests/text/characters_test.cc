#include "text/characters.h"

#include <gtest/gtest.h>

#include <string>

namespace kvd {
namespace {

TEST(CharactersTest, ClassesAreThoseOfPython) {
  EXPECT_TRUE(IsIn(CharacterClass::kAlpha, 'a'));
  EXPECT_TRUE(IsIn(CharacterClass::kAlpha, 0x5b57));
  EXPECT_FALSE(IsIn(CharacterClass::kAlpha, '1'));
  EXPECT_TRUE(IsIn(CharacterClass::kDigit, 0xb2));
  EXPECT_FALSE(IsIn(CharacterClass::kDecimal, 0xb2));
  EXPECT_TRUE(IsIn(CharacterClass::kNumeric, 0xbd));
  EXPECT_TRUE(IsIn(CharacterClass::kSpace, 0xa0));
  EXPECT_TRUE(IsIn(CharacterClass::kSpace, 0x1c));
  EXPECT_FALSE(IsIn(CharacterClass::kSpace, 0x200b));
  EXPECT_FALSE(IsIn(CharacterClass::kPrintable, 0xad));
  EXPECT_TRUE(IsIn(CharacterClass::kTitle, 0x1c5));
  EXPECT_FALSE(IsIn(CharacterClass::kAlpha, 0x110000));
}

TEST(CharactersTest, DecimalValuesAreThoseOfEveryScript) {
  EXPECT_EQ(DecimalValue('7'), 7);
  EXPECT_EQ(DecimalValue(0x663), 3);
  EXPECT_EQ(DecimalValue('a'), std::nullopt);
}

TEST(CharactersTest, CasesChangeAsInPython) {
  EXPECT_EQ(Upper("stra\u00dfe \u01c6"), "STRASSE \u01c4");
  EXPECT_EQ(Lower("\u0130X"), "i\u0307x");
  EXPECT_EQ(Title("they're \u01c6 x2y"), "They'Re \u01c5 X2Y");
  EXPECT_EQ(Capitalize("\u00e9A\u00c9"), "\u00c9a\u00e9");
  EXPECT_EQ(SwapCase("aB\u00df"), "AbSS");
  EXPECT_EQ(CaseFold("\u00dfA"), "ssa");
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
