#include "engine/vocabulary/word_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include "base/utf8.h"
#include "engine/vocabulary/pretokenizers.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using testing::ElementsAre;

std::vector<std::string> WordsOf(std::span<const SplitStage> stages, std::string_view text) {
  Result<WordSplitter> splitter = WordSplitter::Create(stages);
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

std::vector<std::string> WordsOf(std::string_view pretokenizer, std::string_view text) {
  const Pretokenizer* found = FindPretokenizer(pretokenizer);
  EXPECT_NE(found, nullptr) << pretokenizer;
  return found == nullptr ? std::vector<std::string>() : WordsOf(found->stages, text);
}

TEST(PretokenizersTest, Gpt2JoinsASpaceToItsWordAndSplitsContractions) {
  EXPECT_THAT(WordsOf("gpt-2", "I've 123,  it'LL\n"),
              ElementsAre("I", "'ve", " 123", ",", " ", " it", "'", "LL", "\n"));
}

TEST(PretokenizersTest, Llama3SplitsDigitsByThreesAndContractionsOfEitherCase) {
  EXPECT_THAT(WordsOf("llama-bpe", "It'LL be 12345!\n\n  x"),
              ElementsAre("It", "'LL", " be", " ", "123", "45", "!\n\n", " ", " x"));
}

TEST(PretokenizersTest, Qwen2SplitsDigitsOneByOne) {
  EXPECT_THAT(WordsOf("qwen2", "a 12\r\n\r\nb"), ElementsAre("a", " ", "1", "2", "\r\n\r\n", "b"));
}

TEST(PretokenizersTest, StarcoderSplitsDigitsOneByOneBeforeWords) {
  EXPECT_THAT(WordsOf("starcoder", "x12 3y"), ElementsAre("x", "1", "2", " ", "3", "y"));
}

TEST(PretokenizersTest, FalconSplitsPunctuationFirstAndAsciiDigitsByThrees) {
  EXPECT_THAT(WordsOf("falcon", "a.b 1234 `c"),
              ElementsAre("a", ".", "b", " ", "123", "4", " ", "`", "c"));
}

TEST(PretokenizersTest, TheDefaultKeepsBackquotesWithWords) {
  EXPECT_THAT(WordsOf("default", "a `b"), ElementsAre("a", " `", "b"));
  EXPECT_THAT(WordsOf("", "12345"), ElementsAre("123", "45")) << "no name is the default";
}

TEST(PretokenizersTest, DeepseekLlmSeparatesLineEndsLettersPunctuationIdeographsAndNumbers) {
  EXPECT_THAT(WordsOf("deepseek-llm", "Hi, \u4f60\u597d123\n\n"),
              ElementsAre("Hi", ",", " ", "\u4f60\u597d", "123", "\n", "\n"));
  EXPECT_THAT(WordsOf("deepseek-llm", "a   "), ElementsAre("a", "   "));
}

TEST(PretokenizersTest, DeepseekCoderSplitsDigitsOneByOne) {
  EXPECT_THAT(WordsOf("deepseek-coder", "x = 12;"), ElementsAre("x", " = ", "1", "2", ";"));
}

TEST(PretokenizersTest, CharactersNewerThanTheLibraryCountAsLettersAndDigits) {
  EXPECT_THAT(WordsOf("gpt-2", "a\U00031350\U00011f50"), ElementsAre("a\U00031350", "\U00011f50"));
}

TEST(PretokenizersTest, WhiteSpaceIsThatOfUnicodeAndNotOfTheLibrary) {
  EXPECT_THAT(WordsOf("gpt-2", "\u00a0\u3000a"), ElementsAre("\u00a0", "\u3000", "a"));
  EXPECT_THAT(WordsOf("gpt-2", "\u180e\u180e"), ElementsAre("\u180e\u180e"));
}

struct SplitCase {
  std::string_view name;
  std::string_view text;
  std::vector<std::string> words;
};

// One text for each group of expressions, which shows what distinguishes it.
TEST(PretokenizersTest, EveryGroupSplitsItsText) {
  const SplitCase cases[] = {
      {"starcoder", "ab 12", {"ab", " ", "1", "2"}},
      {"default", "a,1234", {"a", ",", "123", "4"}},
      {"falcon", "a`1234", {"a", "`", "123", "4"}},
      {"qwen2", "It'S 12!\n", {"It", "'S", " ", "1", "2", "!\n"}},
      {"qwen35", "e\u0301a \u0301!", {"e\u0301a", " \u0301", "!"}},
      {"minicpm5", "a  1234", {"a", "  ", "123", "4"}},
      {"laguna", "a!\n\nb", {"a", "!", "\n\n", "b"}},
      {"jais-2", "a   b", {"a", "  ", " b"}},
      {"seed-coder", "a !\nb", {"a", " !", "\n", "b"}},
      {"bailingmoe2", "a \n\n b", {"a", " \n\n", " b"}},
      {"exaone-moe", "one two  three!/", {"one two", " ", " three", "!/"}},
      {"gpt-4o", "HELLOworldAB'sC", {"HELLOworld", "AB's", "C"}},
      {"granite-embed-multi-97m", "e\u0301A\u0301b", {"e\u0301", "A\u0301b"}},
      {"tekken", "abC'd12", {"ab", "C", "'d", "1", "2"}},
      {"tiny_aya", "ab 1234567!", {"ab", " ", "1", "234", "567", "!"}},
      {"youtu", "a\u4f60\u3002\uac00 b12", {"a", "\u4f60", "\u3002", "\uac00", " b", "1", "2"}},
      {"kimi-k2", "a\u4f60\u597db's1234", {"a", "\u4f60\u597d", "b's", "123", "4"}},
      {"deepseek-llm", "ab 12\u4f60\n", {"ab", " ", "12", "\u4f60", "\n"}},
      {"deepseek-coder", "ab, 12", {"ab", ",", " ", "1", "2"}},
      {"deepseek-v3", "!ab it's 1234\x01", {"!ab", " it", "'s", " ", "123", "4", "\x01"}},
      {"afmoe", "a 1234\u0e41b", {"a", " ", "1", "234", "\u0e41", "b"}},
      {"superbpe", "one two 12345 x", {"one two ", "12", "345", " x"}},
      {"bloom", "ab, c(d", {"ab", ",", " c", "(", "d"}},
      {"viking", "ab 12", {"ab", " ", "1", "2"}},
      {"chameleon",
       "a1!  b<sentinel:2>",
       {"a", "1", "!", "  ", "b", "<", "sentinel", ":", "2", ">"}},
      {"gemma4", "a b\n\nc", {"a b", "\n\n", "c"}},
      {"whitespace", "a b  c", {"a", " ", "b", "  ", "c"}},
  };
  for (const SplitCase& one : cases) {
    EXPECT_EQ(WordsOf(one.name, one.text), one.words) << one.name;
  }
}

TEST(PretokenizersTest, EveryNameIsListedOnce) {
  std::set<std::string_view> names;
  for (const Pretokenizer& pretokenizer : AllPretokenizers()) {
    EXPECT_TRUE(names.insert(pretokenizer.name).second) << pretokenizer.name;
  }
  EXPECT_EQ(names.size(), 87u);
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
  EXPECT_TRUE(FindPretokenizer("granite-embed-multi-311m")->always_adds_bos);
  EXPECT_FALSE(FindPretokenizer("sarvam-moe")->always_adds_bos);
  EXPECT_FALSE(FindPretokenizer("sarvam-moe")->joins_line_feeds);
  EXPECT_TRUE(FindPretokenizer("kimi-k2")->may_lack_merges);
}

TEST(WordSplitterTest, TheWordsOfAnyTextAreTheText) {
  std::mt19937 random(7);
  for (const Pretokenizer& pretokenizer : AllPretokenizers()) {
    Result<WordSplitter> splitter = WordSplitter::Create(pretokenizer.stages);
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

// Classes of texts that are hard for some expression: runs of one class of characters, pairs of
// classes, and what an expression might look ahead for.
const char* const kHostileParts[] = {
    " ",
    "a",
    "A",
    "1",
    "\n",
    "'",
    "\u3000",
    "\u4f60",
    " \n",
    "\ufffd",
    "\r\n",
    "aA",
    "Aa",
    "a ",
    "1 ",
    "\u0301",
    "a\u0301",
    "!",
    "! ",
    "!\n",
    "'s",
    "\u00e9A",
    "A\u00e9",
    "a1",
    "\x01",
    "/",
    "\u0661",
    "1\u0661",
    "<",
    "<sentinel:1",
    "IMGIMGA",
    "A\u0301",
    "\uac00",
    "\u4f60a",
    "a\u4f60",
    "\t\t\v",
    "\u0301A",
    "123456",
    "a a ",
    "\u00e9",
    "\u00e9\u0301 ",
};

std::string Repeated(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text.append(part);
  return text;
}

// Returns one pretokenizer of each group with the same stages.
std::vector<Pretokenizer> OneOfEachGroup() {
  std::vector<Pretokenizer> groups;
  for (const Pretokenizer& pretokenizer : AllPretokenizers()) {
    const auto has_same_stages = [&](const Pretokenizer& other) {
      return other.stages.data() == pretokenizer.stages.data();
    };
    if (std::ranges::none_of(groups, has_same_stages)) groups.push_back(pretokenizer);
  }
  return groups;
}

// A text that is four times as long may take at most five times as many steps: quadratic work would
// take sixteen times as many.
TEST(WordSplitterTest, StepsAreLinearInTheTextForEveryPretokenizer) {
  for (const Pretokenizer& pretokenizer : OneOfEachGroup()) {
    for (const std::string_view part : kHostileParts) {
      for (const std::string_view end : {"", "x"}) {
        const auto steps_of = [&](std::size_t bytes) {
          const auto steps =
              WordSplitter::CountSteps(pretokenizer.stages, Repeated(part, bytes).append(end));
          EXPECT_TRUE(steps.has_value()) << pretokenizer.name << ": " << steps.error().message;
          return steps.value_or(0);
        };
        const std::uint64_t steps = steps_of(1000);
        EXPECT_LE(steps_of(4000), 5 * steps)
            << pretokenizer.name << " '" << part << "' before '" << end << "'";
      }
    }
  }
}

TEST(WordSplitterTest, StepsOfAnExpressionThatLooksAheadToTheEndOfARunAreQuadratic) {
  const SplitStage quadratic[] = {{R"([0-9]{1,3}(?=(?:[0-9]{3})*(?![0-9])))"}};
  const auto few = WordSplitter::CountSteps(quadratic, std::string(3000, '1'));
  const auto many = WordSplitter::CountSteps(quadratic, std::string(12'000, '1'));
  ASSERT_TRUE(few.has_value() && many.has_value());
  EXPECT_GT(*many, 10 * *few);
}

// Long runs need no memory for each character, so that the library does not reach its limits.
TEST(WordSplitterTest, LongTextsOfEveryHostileClassAreSplit) {
  const std::size_t length = test::IsScaledDown() ? 20'000 : 100'000;
  for (const Pretokenizer& pretokenizer : OneOfEachGroup()) {
    Result<WordSplitter> splitter = WordSplitter::Create(pretokenizer.stages);
    ASSERT_TRUE(splitter.has_value());
    for (const std::string_view part : kHostileParts) {
      Result<std::vector<std::size_t>> words = splitter->Split(Repeated(part, length).append("7"));
      ASSERT_TRUE(words.has_value())
          << pretokenizer.name << " '" << part << "': " << words.error().message;
    }
  }
}

// The expressions as they are published, or as llama.cpp runs them, of the pre-tokenizers that have
// another form of them.
#define KVD_CONTRACTION R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))"
struct PlainForm {
  std::string_view name;
  std::vector<SplitStage> stages;
};
const PlainForm kPlainForms[] = {
    {"gpt-4o",
     {{R"([^\r\n\p{L}\p{N}]?(?:(?![a-z])\p{L})*(?:(?![A-Z])\p{L})+(?:)" KVD_CONTRACTION
       R"()?|[^\r\n\p{L}\p{N}]?(?:(?![a-z])\p{L})+(?:(?![A-Z])\p{L})*(?:)" KVD_CONTRACTION
       R"()?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
    {"granite-embed-multi-97m",
     {{R"([^\r\n\p{L}\p{N}]?(?:(?![a-z])[\p{L}\p{M}])*(?:(?![A-Z])[\p{L}\p{M}])+(?:)" KVD_CONTRACTION
       R"()?|[^\r\n\p{L}\p{N}]?(?:(?![a-z])[\p{L}\p{M}])+(?:(?![A-Z])[\p{L}\p{M}])*(?:)" KVD_CONTRACTION
       R"()?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
    {"tekken",
     {{R"([^\r\n\p{L}\p{N}]?(?:(?![a-z])\p{L})*(?:(?![A-Z])\p{L})+)"
       R"(|[^\r\n\p{L}\p{N}]?(?:(?![a-z])\p{L})+(?:(?![A-Z])\p{L})*)"
       R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
    {"jais-2",
     {{KVD_CONTRACTION
       R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
       R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
       R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}}},
    {"exaone-moe",
     {{KVD_CONTRACTION
       R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
       R"(|\s*[\r\n]|\s+(?!\S)|\s+)"}}},
    {"bailingmoe",
     {{KVD_CONTRACTION
       R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}}},
    {"kimi-k2",
     {{R"((?:[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df})"
       R"(\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}])+)"
       R"(|[^\r\n\p{L}\p{N}]?(?:(?![\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff})"
       R"(\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}])\p{L})+(?:)" KVD_CONTRACTION
       R"()?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
    {"tiny_aya",
     {{R"([^\p{N}]*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))"},
      {R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:)" KVD_CONTRACTION
       R"()?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
    {"superbpe",
     {{R"(\p{N}+)"}, {R"((?=(?:[0-9]{3})+(?![0-9]))(?s:.)(?:(?!(?:[0-9]{3})+(?![0-9]))(?s:.))*)"}}},
    {"chameleon",
     {{R"(<sentinel:[0-9]+>)"},
      {R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)"},
      {R"(([\t\n]|    |  ))"},
      {R"(\p{N})"},
      {R"([\p{P}!-/:-@\[-`{-~])"},
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}}},
};

TEST(PretokenizersTest, ALinearExpressionGivesTheWordsOfThePlainOne) {
  const char* const parts[] = {"a",          "b",
                               "A",          "Z",
                               "\u00e9",     "\u0301",
                               "\u4f60",     " ",
                               "  ",         "\n",
                               "\r\n",       "\t",
                               "'s",         "'LL",
                               "'",          "!",
                               "/",          "1",
                               "12",         "\u0661",
                               "345",        "\x01",
                               "\u3000",     "\u00a0",
                               "<",          "IMGIMG",
                               "AI",         "<sentinel:1>",
                               "\U00020000", "                ",
                               "\u0130",     "\uac00"};
  std::mt19937 random(17);
  for (const PlainForm& plain : kPlainForms) {
    const Pretokenizer* found = FindPretokenizer(plain.name);
    ASSERT_NE(found, nullptr) << plain.name;
    for (int i = 0; i < test::Scaled(400, 400); ++i) {
      std::string text;
      for (auto count = random() % 16; count > 0; --count)
        text += parts[random() % std::size(parts)];
      ASSERT_EQ(WordsOf(found->stages, text), WordsOf(plain.stages, text))
          << plain.name << " '" << text << "'";
    }
  }
}

TEST(PretokenizersTest, Jais2CutsLongBlanksInPowersOfTwo) {
  const auto words = WordsOf("jais-2", std::string(1030, ' ') + "a");
  std::vector<std::size_t> bytes;
  for (const std::string& word : words) bytes.push_back(word.size());
  EXPECT_THAT(bytes, ElementsAre(512, 512, 4, 1, 2));
}

TEST(WordSplitterTest, SetsAreExpandedInsideAndOutsideBrackets) {
  EXPECT_EQ(WidenExpression("a\\\\s"), "a\\\\s");
  EXPECT_TRUE(WidenExpression("\\s").starts_with("[\\x09-\\x0d"));
  EXPECT_TRUE(WidenExpression("\\S").starts_with("[^\\x09-\\x0d"));
  EXPECT_TRUE(WidenExpression("[\\]\\p{N}]").starts_with("[\\]\\p{N}\\x{11f50}"));
}

TEST(WordSplitterTest, AnExpressionThatDoesNotCompileIsNamed) {
  const SplitStage wrong[] = {{"a"}, {"(b"}};
  Result<WordSplitter> splitter = WordSplitter::Create(wrong);
  ASSERT_FALSE(splitter.has_value());
  EXPECT_EQ(splitter.error().code, Code::kInternal);
  EXPECT_NE(splitter.error().message.find("(b"), std::string::npos);
}

TEST(WordSplitterTest, AnExpressionThatBacktracksWithoutBoundOrMatchesNothingFails) {
  const SplitStage unbounded[] = {{"(?:a|a|a)+(?:a|a|a)+[bc]"}};
  Result<WordSplitter> splitter = WordSplitter::Create(unbounded);
  ASSERT_TRUE(splitter.has_value());
  EXPECT_EQ(splitter->Split(std::string(60, 'a')).error().code, Code::kInternal);
  const SplitStage nothing[] = {{"b*"}};
  splitter = WordSplitter::Create(nothing);
  ASSERT_TRUE(splitter.has_value());
  EXPECT_EQ(splitter->Split("a").error().code, Code::kInternal);
}

}  // namespace
}  // namespace kvd
