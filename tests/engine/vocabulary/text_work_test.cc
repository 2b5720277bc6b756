// Tests tokenizing and detokenizing as interruptible work: the number of steps is linear, the work
// can be cancelled at each step, and the length of the text of tokens is limited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/counting_work.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using test::CountingWork;
using testing::HasSubstr;

std::uint64_t TokenizeSteps(const Vocabulary& vocabulary, std::string_view part,
                            std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  CountingWork work;
  EXPECT_TRUE(vocabulary.Tokenize(text, {.parse_special = true}, work));
  return work.steps();
}

VocabularyData SmallWordPieceData() {
  VocabularyData data;
  data.model = "bert";
  data.tokens = {"[PAD]", "[UNK]",         "[CLS]", "[SEP]", "\xe2\x96\x81hello",
                 "hello", "\xe2\x96\x81h", "e"};
  data.unk = 1;
  return data;
}

VocabularyData SmallUnigramData() {
  VocabularyData data;
  data.model = "t5";
  data.tokens = {"<pad>", "</s>", "<unk>", "\xe2\x96\x81", "he", "llo", "hello", "h",
                 "e",     "l",    "o"};
  data.scores = {0, 0, 0, -1, -2, -2, -1, -4, -4, -4, -4};
  data.token_types = {3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  return data;
}

// A vocabulary of each kind of tokenizer.
std::vector<VocabularyData> AllKinds() {
  return {SmallBytePairData(),  SmallSentencePieceData(),      SmallWordPieceData(),
          SmallUnigramData(),   test::SmallLinesData(),        test::SmallBlankSeparatedData(),
          test::SmallDnaData(), test::SmallLongestMatchData(), test::SmallReverseUnigramData()};
}

// Runs of digits, letters, spaces, combining marks, apostrophes and line feeds, ideographs, very
// long words, and texts that special tokens and sequences of bases divide. Sanitizer builds take
// every third part for each vocabulary. A smaller text would have too few steps.
TEST(TextWorkTest, StepsOfTokenizingAreLinearInTheText) {
  std::size_t number = 0;
  for (const VocabularyData& data : AllKinds()) {
    const auto vocabulary = MakeVocabulary(data);
    ASSERT_NE(vocabulary, nullptr);
    for (const char* part : {"hello ",
                             "hello",
                             " ",
                             "<|end|>",
                             "1",
                             "a",
                             "\u0301",
                             "a\u0301",
                             "'",
                             "\n",
                             "a\n",
                             "\u4f60",
                             "\xff",
                             "aB1 '\u4f60\n",
                             "<dna>acgtac</dna>",
                             "<dna>",
                             "acgt",
                             "<user>\ufeff",
                             "bb",
                             "abb"}) {
      if (number++ % test::Stride(3) != 0) continue;
      const std::uint64_t steps = TokenizeSteps(*vocabulary, part, 1 << 16);
      EXPECT_GT(steps, 3u) << data.model << " '" << part << "'";
      EXPECT_LT(TokenizeSteps(*vocabulary, part, 1 << 18), 5 * steps)
          << data.model << " '" << part << "'";
    }
  }
}

TEST(TextWorkTest, TokenizingEndsAtTheStepAtWhichItIsCancelled) {
  const std::string text(1 << 16, 'h');
  for (const VocabularyData& data : AllKinds()) {
    const auto vocabulary = MakeVocabulary(data);
    ASSERT_NE(vocabulary, nullptr);
    CountingWork whole;
    ASSERT_TRUE(vocabulary->Tokenize(text, {.parse_special = true}, whole));
    for (std::uint64_t at = 1; at <= whole.steps(); at += 1 + whole.steps() / 16) {
      CountingWork work(at);
      const auto tokens = vocabulary->Tokenize(text, {.parse_special = true}, work);
      ASSERT_FALSE(tokens) << data.model;
      EXPECT_EQ(tokens.error().code, Code::kCancelled);
      EXPECT_EQ(work.steps(), at);
    }
  }
}

TEST(TextWorkTest, StepsOfDetokenizingAreLinearInTheTokens) {
  const auto vocabulary = MakeVocabulary(SmallBytePairData());
  const auto steps_of = [&](std::size_t tokens) {
    CountingWork work;
    std::vector<std::byte> text;
    EXPECT_TRUE(vocabulary->DetokenizeTo(std::vector<TokenId>(tokens, 259), {}, work, &text));
    EXPECT_EQ(text.size(), 5 * tokens);
    return work.steps();
  };
  const std::uint64_t steps = steps_of(1 << 17);
  EXPECT_GT(steps, 8u);
  EXPECT_LT(steps_of(1 << 19), 5 * steps);
  CountingWork work(2);
  EXPECT_EQ(vocabulary->Detokenize(std::vector<TokenId>(1 << 17, 259), {}, work).error().code,
            Code::kCancelled);
}

TEST(TextWorkTest, TextBeyondTheLimitIsRefusedByName) {
  VocabularyData data = SmallBytePairData();
  data.tokens.emplace_back(TokenTable::kTokenBytesMax, 'x');
  data.token_types.push_back(static_cast<std::int32_t>(GgufTokenType::kUserDefined));
  data.scores.clear();
  const auto vocabulary = MakeVocabulary(data);
  const auto longest = static_cast<TokenId>(data.tokens.size() - 1);
  const std::size_t fit = Vocabulary::kTextBytesMax / TokenTable::kTokenBytesMax;
  const auto whole = vocabulary->Detokenize(std::vector<TokenId>(fit, longest), {});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->size(), Vocabulary::kTextBytesMax);
  const auto refused = vocabulary->Detokenize(std::vector<TokenId>(fit + 1, longest), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_THAT(refused.error().message,
              HasSubstr("text: the tokens' text is longer than the limit of 16777216 bytes"));
}

TEST(TextWorkTest, CountedBytesEqualTheTextAfterCleaning) {
  const auto vocabulary = MakeVocabulary(SmallWordPieceData());
  const std::vector<TokenId> tokens = {4, 4};
  std::vector<std::byte> bytes = {std::byte{'>'}};
  ASSERT_TRUE(vocabulary->DetokenizeTo(tokens, {}, Uncontrolled(), &bytes));
  const auto text = vocabulary->Detokenize(tokens, {});
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), ">" + *text);
}

}  // namespace
}  // namespace kvd
