#include "engine/vocabulary/simple_tokenizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

using test::SmallBlankSeparatedData;
using testing::ElementsAre;

TEST(BlankSeparatedTest, WhiteSpaceEndsWordsAndGivesNoToken) {
  EXPECT_THAT(TokensOf(SmallBlankSeparatedData(), "hello he\n\t  lo\u3000\u00a0h e"),
              ElementsAre(5, 3, 6, 5, 6, 1, 2));
  EXPECT_THAT(TokensOf(SmallBlankSeparatedData(), " \u2028 "), ElementsAre());
}

TEST(BlankSeparatedTest, CaseIsKeptUnlessTheFileOrThePretokenizerFoldsIt) {
  EXPECT_THAT(TokensOf(SmallBlankSeparatedData(), "Hh"), ElementsAre(8, 1));
  VocabularyData data = SmallBlankSeparatedData();
  data.lowercase = true;
  EXPECT_THAT(TokensOf(data, "HE\u00c9"), ElementsAre(5, 7));
  VocabularyData bytes = SmallBytePairData();
  bytes.model = "whitespace";
  EXPECT_THAT(TokensOf(bytes, "HELLO hEllo"), ElementsAre(259, 259));
  bytes.lowercase = false;
  EXPECT_THAT(TokensOf(bytes, "H"), ElementsAre('H'));
}

TEST(BlankSeparatedTest, WordsWithoutATokenBecomeByteTokens) {
  EXPECT_THAT(TokensOf(SmallBlankSeparatedData(), "\u00e8h\u20ac"), ElementsAre(9, 1));
  EXPECT_THAT(TokensOf(SmallBlankSeparatedData(), "h\xc3 \xff"), ElementsAre(1, 9));
}

TEST(BlankSeparatedTest, PiecesAreTheTextsOfTheTokens) {
  const auto vocabulary = MakeVocabulary(SmallBlankSeparatedData());
  EXPECT_EQ(vocabulary->Detokenize(std::vector<TokenId>{5, 6, 7, 9}, {}), "helo\u00e9\xc3");
}

}  // namespace
}  // namespace kvd
