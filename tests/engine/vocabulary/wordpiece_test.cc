#include "engine/vocabulary/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unicode_tables.h"
#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd::wordpiece_test {
namespace {

using testing::ElementsAre;

// Token ids of WordPieceData.
constexpr TokenId kUnk = 0, kCls = 1, kSep = 2, kMask = 3, kUn = 4, kAble = 6, kHello = 7,
                  kBang = 8, kCafe = 9, kHan = 10, kUnaff = 11, kDollar = 12, kQuote = 14,
                  kUpper = 15, kAccented = 16, kJamo = 17;

VocabularyData WordPieceData() {
  VocabularyData data;
  data.model = "bert";
  data.tokens = {
      "[UNK]",   "[CLS]",       "[SEP]",   "[MASK]",      "\u2581un",        "aff",
      "able",    "\u2581hello", "\u2581!", "\u2581cafe",  "\u2581\u4e2d",    "\u2581unaff",
      "\u2581$", "\u2581s",     "\u2581'", "\u2581Hello", "\u2581caf\u00e9", "\u2581\u1112"};
  data.token_types.assign(data.tokens.size(), 1);
  for (std::size_t i = 0; i < 4; ++i) data.token_types[i] = 3;
  data.unk = 0;
  data.bos = 1;
  data.sep = 2;
  data.mask = 3;
  return data;
}

std::vector<TokenId> TokensOf(const Vocabulary& vocabulary, std::string_view text,
                              TokenizeOptions options = {}) {
  Result<std::vector<TokenId>> tokens = vocabulary.Tokenize(text, options);
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message;
  return tokens ? *tokens : std::vector<TokenId>();
}

TEST(WordPieceTest, TheLongestTokensCoverAWord) {
  auto vocabulary = MakeVocabulary(WordPieceData());
  EXPECT_EQ(vocabulary->kind(), Vocabulary::Kind::kWordPiece);
  EXPECT_THAT(TokensOf(*vocabulary, "unaffable"), ElementsAre(kUnaff, kAble));
  EXPECT_THAT(TokensOf(*vocabulary, "unable  hello\n"), ElementsAre(kUn, kAble, kHello));
  EXPECT_THAT(TokensOf(*vocabulary, ""), ElementsAre());
  EXPECT_THAT(TokensOf(*vocabulary, " \t "), ElementsAre());
}

TEST(WordPieceTest, AWordThatTokensDoNotCoverIsOneUnknownToken) {
  auto vocabulary = MakeVocabulary(WordPieceData());
  EXPECT_THAT(TokensOf(*vocabulary, "unaffably hello"), ElementsAre(kUnk, kHello));
  // "aff" is a token only inside words
  EXPECT_THAT(TokensOf(*vocabulary, "aff"), ElementsAre(kUnk));
}

TEST(WordPieceTest, WithoutAnUnknownTokenSuchWordsAreLeftOut) {
  VocabularyData data = WordPieceData();
  data.unk.reset();  // the default, 100, is not a token of this vocabulary
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "zzz hello"), ElementsAre(kHello));
}

TEST(WordPieceTest, PunctuationSymbolsAndChineseCharactersAreWords) {
  auto vocabulary = MakeVocabulary(WordPieceData());
  EXPECT_THAT(TokensOf(*vocabulary, "hello!hello"), ElementsAre(kHello, kBang, kHello));
  EXPECT_THAT(TokensOf(*vocabulary, "$hello"), ElementsAre(kDollar, kHello));
  EXPECT_THAT(TokensOf(*vocabulary, "hello\u4e2d\u4e2d"), ElementsAre(kHello, kHan, kHan));
}

TEST(WordPieceTest, LettersBecomeLowerCaseAndLoseTheirAccents) {
  auto vocabulary = MakeVocabulary(WordPieceData());
  EXPECT_THAT(TokensOf(*vocabulary, "HELLO Caf\u00c9 cafe\u0301"),
              ElementsAre(kHello, kCafe, kCafe));
  EXPECT_THAT(TokensOf(*vocabulary, "\ud55c"), ElementsAre(kJamo));  // decomposed, as in llama.cpp
}

TEST(WordPieceTest, TheFileMayKeepCaseAndAccents) {
  VocabularyData data = WordPieceData();
  data.lowercase = false;
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "Hello hello caf\u00e9"),
              ElementsAre(kUpper, kHello, kAccented));
  data.strip_accents = true;
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "Hello caf\u00e9"), ElementsAre(kUpper, kCafe));
  data.lowercase = true;
  data.strip_accents = false;
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "Hello CAF\u00c9"), ElementsAre(kHello, kAccented));
}

TEST(WordPieceTest, InvalidBytesAreDropped) {
  auto vocabulary = MakeVocabulary(WordPieceData());
  std::string text = "hel";
  text += '\0';
  text += "l\xff\u200bo\ufffd";
  EXPECT_THAT(TokensOf(*vocabulary, text), ElementsAre(kHello));
}

TEST(WordPieceTest, ClsAndSepAlwaysSurroundAText) {
  VocabularyData data = WordPieceData();
  data.add_bos = false;
  data.add_eos = true;
  data.eos = kMask;
  auto vocabulary = MakeVocabulary(data);
  std::vector<TokenId> tokens = TokensOf(*vocabulary, "hello", {.add_special = true});
  EXPECT_THAT(tokens, ElementsAre(kCls, kHello, kSep));
  EXPECT_THAT(TokensOf(*vocabulary, "hello [MASK]", {.parse_special = true}),
              ElementsAre(kHello, kMask));
  EXPECT_EQ(vocabulary->Detokenize(tokens, {.remove_special = true, .unparse_special = true}),
            "hello");
  EXPECT_EQ(vocabulary->Detokenize(tokens, {.unparse_special = true}), "[CLS] hello[SEP]");
}

TEST(WordPieceTest, TokensAreDecodedToCleanText) {
  auto vocabulary = MakeVocabulary(WordPieceData());
  EXPECT_EQ(vocabulary->Detokenize(std::vector{kCls, kUn, kAble, kHello, kBang, kSep}, {}),
            "unable hello!");
  EXPECT_EQ(vocabulary->Detokenize(std::vector{kHello, kQuote, kHello}, {}), "hello'hello");
}

TEST(WordPieceTest, SpacesBeforePunctuationAndContractionsAreCleanedUp) {
  EXPECT_EQ(CleanUpSpaces("a ? b ! c . d , e ; f"), "a? b! c. d, e ; f");
  EXPECT_EQ(CleanUpSpaces("it 's i 'm we 're you 've"), "it's i'm we're you've");
  EXPECT_EQ(CleanUpSpaces("he 'd don 't we 'll"), "he 'd don 't we 'll");
  EXPECT_EQ(CleanUpSpaces("a ' b ' ' c '"), "a'b'' c '");
  EXPECT_EQ(CleanUpSpaces(" . "), ". ");
  EXPECT_EQ(CleanUpSpaces(""), "");
}

TEST(UnicodeTablesTest, ClassesCasesAndDecompositionsAreKnown) {
  EXPECT_EQ(ClassOf(0), CharacterClass::kControl);
  EXPECT_EQ(ClassOf('!'), CharacterClass::kPunctuation);
  EXPECT_EQ(ClassOf('$'), CharacterClass::kOther);
  EXPECT_EQ(ClassOf(0x301), CharacterClass::kMark);
  EXPECT_EQ(ClassOf(0x1e4ec), CharacterClass::kMark);  // assigned in Unicode 15.0
  EXPECT_EQ(ClassOf(0xe000), CharacterClass::kControl);
  EXPECT_EQ(ClassOf(0xffffffff), CharacterClass::kOther);
  EXPECT_EQ(LowerCase('A'), 'a');
  EXPECT_EQ(LowerCase('['), '[');
  EXPECT_EQ(LowerCase(0x130), 'i');
  EXPECT_EQ(LowerCase(0x100), 0x101u);
  EXPECT_EQ(LowerCase(0x101), 0x101u);
  EXPECT_EQ(LowerCase(0x1e921), 0x1e943u);
  EXPECT_EQ(LowerCase(0xffffffff), 0xffffffffu);
  EXPECT_EQ(DecompositionBase(0xc9), 'E');
  EXPECT_EQ(DecompositionBase('E'), 'E');
  EXPECT_EQ(DecompositionBase(0x1e69), 's');
  EXPECT_EQ(DecompositionBase(0xac00), 0x1100u);
  EXPECT_EQ(DecompositionBase(0xd7a3), 0x1112u);
  EXPECT_EQ(DecompositionBase(0x2fa1d), 0x2a600u);
  EXPECT_EQ(DecompositionBase(0xffffffff), 0xffffffffu);
}

}  // namespace
}  // namespace kvd::wordpiece_test
