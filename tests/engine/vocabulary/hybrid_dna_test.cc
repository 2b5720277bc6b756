#include "engine/vocabulary/simple_tokenizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd::hybrid_dna_test {
namespace {

using test::SmallDnaData;
using testing::ElementsAre;

constexpr TokenId kAc = 256, kBegin = 257, kEnd = 258, kUnknownGroup = 259, kAcgtac = 260,
                  kAaaaaa = 261, kGtaaaa = 262;

TEST(HybridDnaTest, BasesAreSplitIntoSixesAndTheLastGroupPadded) {
  EXPECT_THAT(TokensOf(SmallDnaData(), "ac<dna>acgtacGT</dna>ac"),
              ElementsAre(kAc, kBegin, kAcgtac, kGtaaaa, kEnd, kAc));
  EXPECT_THAT(TokensOf(SmallDnaData(), "<dna>A</dna><dna></dna>"),
              ElementsAre(kBegin, kAaaaaa, kEnd, kBegin, kEnd));
}

TEST(HybridDnaTest, AGroupWithoutATokenIsUnknown) {
  EXPECT_THAT(TokensOf(SmallDnaData(), "<dna>NNNNNN</dna>"),
              ElementsAre(kBegin, kUnknownGroup, kEnd));
}

TEST(HybridDnaTest, ASequenceWithoutAnEndEndsWithTheText) {
  EXPECT_THAT(TokensOf(SmallDnaData(), "<dna>ACGTAC"), ElementsAre(kBegin, kAcgtac));
  EXPECT_THAT(TokensOf(SmallDnaData(), "<dna>"), ElementsAre(kBegin));
}

TEST(HybridDnaTest, TextOutsideASequenceIsOrdinaryText) {
  EXPECT_THAT(TokensOf(SmallDnaData(), "ACG"), ElementsAre('A', 'C', 'G'));
  VocabularyData data = SmallDnaData();
  data.tokens[kUnknownGroup] = "<other>";
  EXPECT_THAT(TokensOf(data, "<dna>ac"), ElementsAre('<', 'd', 'n', 'a', '>', kAc));
}

TEST(HybridDnaTest, ThePieceOfAGroupIsItsLetters) {
  const auto vocabulary = MakeVocabulary(SmallDnaData());
  EXPECT_EQ(vocabulary->Piece(kGtaaaa, false), "GTAAAA");
  EXPECT_EQ(vocabulary->TokenText(kGtaaaa), "GTAAAA\ue000");
  EXPECT_EQ(vocabulary->Detokenize(std::vector{kBegin, kAcgtac, kEnd}, {}), "<dna>ACGTAC</dna>");
}

}  // namespace
}  // namespace kvd::hybrid_dna_test
