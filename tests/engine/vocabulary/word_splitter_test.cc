#include "engine/vocabulary/word_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/utf8.h"
#include "engine/vocabulary/pretokenizers.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using testing::ElementsAre;

std::vector<std::string> WordsOf(std::string_view pretokenizer, std::string_view text) {
  const Pretokenizer* found = FindPretokenizer(pretokenizer);
  EXPECT_NE(found, nullptr) << pretokenizer;
  if (found == nullptr) return {};
  Result<WordSplitter> splitter = WordSplitter::Create(found->expressions);
  EXPECT_TRUE(splitter.has_value()) << splitter.error().message;
  Result<std::vector<std::size_t>> word_bytes = splitter->Split(text);
  EXPECT_TRUE(word_bytes.has_value()) << word_bytes.error().message;
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (std::size_t bytes : *word_bytes) {
    words.emplace_back(text.substr(begin, bytes));
    begin += bytes;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

TEST(PretokenizersTest, Gpt2KeepsASpaceWithItsWordAndContractionsApart) {
  EXPECT_THAT(WordsOf("gpt-2", "I've 123,  it'LL\n"),
              ElementsAre("I", "'ve", " 123", ",", " ", " it", "'", "LL", "\n"));
}

TEST(PretokenizersTest, Llama3TakesDigitsByThreesAndContractionsOfEitherCase) {
  EXPECT_THAT(WordsOf("llama-bpe", "It'LL be 12345!\n\n  x"),
              ElementsAre("It", "'LL", " be", " ", "123", "45", "!\n\n", " ", " x"));
}

TEST(PretokenizersTest, Qwen2TakesDigitsOneByOne) {
  EXPECT_THAT(WordsOf("qwen2", "a 12\r\n\r\nb"), ElementsAre("a", " ", "1", "2", "\r\n\r\n", "b"));
}

TEST(PretokenizersTest, StarcoderTakesDigitsOneByOneBeforeWords) {
  EXPECT_THAT(WordsOf("starcoder", "x12 3y"), ElementsAre("x", "1", "2", " ", "3", "y"));
}

TEST(PretokenizersTest, FalconTakesPunctuationFirstAndAsciiDigitsByThrees) {
  EXPECT_THAT(WordsOf("falcon", "a.b 1234 `c"),
              ElementsAre("a", ".", "b", " ", "123", "4", " ", "`", "c"));
}

TEST(PretokenizersTest, TheDefaultLeavesBackquotesToTheWords) {
  EXPECT_THAT(WordsOf("default", "a `b"), ElementsAre("a", " `", "b"));
  EXPECT_THAT(WordsOf("", "12345"), ElementsAre("123", "45")) << "no name is the default";
}

TEST(PretokenizersTest, DeepseekLlmTakesLineEndsLettersPunctuationIdeographsAndNumbersApart) {
  EXPECT_THAT(WordsOf("deepseek-llm", "Hi, \u4f60\u597d123\n\n"),
              ElementsAre("Hi", ",", " ", "\u4f60\u597d", "123", "\n", "\n"));
  EXPECT_THAT(WordsOf("deepseek-llm", "a   "), ElementsAre("a", "   "));
}

TEST(PretokenizersTest, DeepseekCoderTakesDigitsOneByOne) {
  EXPECT_THAT(WordsOf("deepseek-coder", "x = 12;"), ElementsAre("x", " = ", "1", "2", ";"));
}

TEST(PretokenizersTest, CharactersThatTheLibraryMayNotKnowYetCountAsLettersAndDigits) {
  EXPECT_THAT(WordsOf("gpt-2", "a\U00031350\U00011f50"), ElementsAre("a\U00031350", "\U00011f50"));
}

TEST(PretokenizersTest, WhiteSpaceIsUnicodesNotTheLibrarys) {
  EXPECT_THAT(WordsOf("gpt-2", "\u00a0\u3000a"), ElementsAre("\u00a0", "\u3000", "a"));
  EXPECT_THAT(WordsOf("gpt-2", "\u180e\u180e"), ElementsAre("\u180e\u180e"));
}

TEST(PretokenizersTest, ANameThatIsNotListedIsNotFound) {
  EXPECT_EQ(FindPretokenizer("qwen3000"), nullptr);
  EXPECT_EQ(FindPretokenizer("GPT-2"), nullptr);
}

TEST(PretokenizersTest, NamesThatShareExpressionsStillDifferInTheirFlags) {
  EXPECT_TRUE(FindPretokenizer("llama3")->ignore_merges);
  EXPECT_TRUE(FindPretokenizer("llama-v3")->add_bos);
  EXPECT_FALSE(FindPretokenizer("dbrx")->ignore_merges);
  EXPECT_FALSE(FindPretokenizer("smollm")->add_bos);
  EXPECT_FALSE(FindPretokenizer("glm4")->default_bos);
}

TEST(WordSplitterTest, TheWordsOfAnyTextAreTheText) {
  std::mt19937 random(7);
  for (const Pretokenizer& pretokenizer : AllPretokenizers()) {
    Result<WordSplitter> splitter = WordSplitter::Create(pretokenizer.expressions);
    ASSERT_TRUE(splitter.has_value()) << pretokenizer.name << ": " << splitter.error().message;
    for (int i = 0; i < test::Scaled(30, 30); ++i) {
      std::string text;
      for (auto length = random() % 40; length > 0; --length) {
        auto code_point =
            static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 0x30000 : random() % 128);
        AppendUtf8(code_point >= 0xd800 && code_point < 0xe000 ? ' ' : code_point, text);
      }
      Result<std::vector<std::size_t>> words = splitter->Split(text);
      ASSERT_TRUE(words.has_value()) << words.error().message;
      EXPECT_EQ(std::accumulate(words->begin(), words->end(), std::size_t{0}), text.size());
      for (std::size_t bytes : *words) EXPECT_GT(bytes, 0u);
    }
  }
}

// With quadratic time, splitting these texts of 300,000 bytes would make the test conspicuously
// slow.
TEST(WordSplitterTest, MegabytesOfOneCharacterAreSplit) {
  const std::string text_parts[] = {" ", "a", "1", "\n", "'", "\u3000", "\u4f60", " \n", "\ufffd"};
  for (const Pretokenizer& pretokenizer : AllPretokenizers()) {
    Result<WordSplitter> splitter = WordSplitter::Create(pretokenizer.expressions);
    ASSERT_TRUE(splitter.has_value());
    for (const std::string& part : text_parts) {
      std::string text;
      while (text.size() < 300'000) text.append(part);
      text.append("7");
      Result<std::vector<std::size_t>> words = splitter->Split(text);
      ASSERT_TRUE(words.has_value()) << pretokenizer.name << ": " << words.error().message;
    }
  }
}

TEST(WordSplitterTest, SetsAreWrittenOutInsideAndOutsideOfBrackets) {
  EXPECT_EQ(WidenExpression("a\\\\s"), "a\\\\s");
  EXPECT_TRUE(WidenExpression("\\s").starts_with("[\\x09-\\x0d"));
  EXPECT_TRUE(WidenExpression("\\S").starts_with("[^\\x09-\\x0d"));
  EXPECT_TRUE(WidenExpression("[\\]\\p{N}]").starts_with("[\\]\\p{N}\\x{11f50}"));
}

TEST(WordSplitterTest, AnExpressionThatDoesNotCompileIsNamed) {
  std::string_view wrong[] = {"a", "(b"};
  Result<WordSplitter> splitter = WordSplitter::Create(wrong);
  ASSERT_FALSE(splitter.has_value());
  EXPECT_EQ(splitter.error().code, Code::kInternal);
  EXPECT_NE(splitter.error().message.find("(b"), std::string::npos);
}

TEST(WordSplitterTest, AnExpressionThatBacktracksWithoutBoundOrMatchesNothingFails) {
  std::string_view unbounded[] = {"(?:a|a|a)+(?:a|a|a)+[bc]"};
  Result<WordSplitter> splitter = WordSplitter::Create(unbounded);
  ASSERT_TRUE(splitter.has_value());
  EXPECT_EQ(splitter->Split(std::string(60, 'a')).error().code, Code::kInternal);
  std::string_view nothing[] = {"b*"};
  splitter = WordSplitter::Create(nothing);
  ASSERT_TRUE(splitter.has_value());
  EXPECT_EQ(splitter->Split("a").error().code, Code::kInternal);
}

}  // namespace
}  // namespace kvd
