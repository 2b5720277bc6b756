#include "engine/vocabulary/escaped_spaces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/vocabulary/small_models.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd::space_boundaries_test {
namespace {

std::vector<std::string> WordsOf(const SpaceBoundaries& boundaries, std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, boundaries.WordBytes(text)));
    text.remove_prefix(words.back().size());
  }
  return words;
}

using Words = std::vector<std::string>;

TEST(SpaceBoundariesTest, AWordEndsBeforeASpaceIfNoTokenContainsBoth) {
  SpaceBoundaries boundaries;
  boundaries.Add("\u2581a");
  boundaries.Add("b\u00e9\u2581c");
  boundaries.Add("\u2581\u2581");
  EXPECT_EQ(WordsOf(boundaries, "\u2581a\u2581b"), Words({"\u2581a", "\u2581b"}));
  EXPECT_EQ(WordsOf(boundaries, "x\u2581\u2581\u2581y"), Words({"x", "\u2581\u2581\u2581y"}));
  EXPECT_EQ(WordsOf(boundaries, "x\u00e9\u2581y"), Words({"x\u00e9\u2581y"}));
  EXPECT_EQ(WordsOf(boundaries, "\u2581"), Words({"\u2581"}));
}

TEST(SpaceBoundariesTest, InvalidBytesEndNoWord) {
  const SpaceBoundaries boundaries;
  EXPECT_EQ(WordsOf(boundaries, "a\xff\u2581b\u2581c"), Words({"a\xff\u2581b", "\u2581c"}));
  EXPECT_EQ(WordsOf(boundaries, "\xf0\u2581\u2581b"), Words({"\xf0\u2581\u2581b"}));
}

// A token that has every character before U+2581 makes a text one word, so that nothing is cut. It
// is too long to occur in the texts.
VocabularyData WithoutBoundaries(VocabularyData data, bool by_merge) {
  std::string text;
  for (const char* letter : {"a", "b", "c", "\u2581", "\n"}) text.append(letter).append("\u2581");
  if (by_merge) {
    data.merges.push_back(text + " " + text);
  } else {
    data.tokens.push_back(text);
    data.token_types.push_back(static_cast<std::int32_t>(GgufTokenType::kNormal));
    data.scores.push_back(-1000);
  }
  return data;
}

void ExpectEqualTokens(const VocabularyData& data, bool by_merge, std::mt19937& random) {
  const auto cut = MakeVocabulary(data);
  const auto whole = MakeVocabulary(WithoutBoundaries(data, by_merge));
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (auto length = random() % 60; length > 0; --length) text += "abc  \n\xff"[random() % 7];
    EXPECT_EQ(*cut->Tokenize(text, {}), *whole->Tokenize(text, {})) << text;
  }
}

TEST(SpaceBoundariesTest, TokensDoNotDependOnWhereATextIsCut) {
  std::mt19937 random(23);
  const char* const letters[] = {"a", "b", "c", "\u2581"};
  for (int round = 0; round < test::Scaled(40, 40); ++round) {
    VocabularyData scored = SmallSentencePieceData();
    VocabularyData merged = test::SmallLinesData();
    const auto add = [&](const std::string& text) {
      if (std::ranges::find(scored.tokens, text) != scored.tokens.end()) return;
      scored.tokens.push_back(text);
      scored.token_types.push_back(static_cast<std::int32_t>(GgufTokenType::kNormal));
      scored.scores.push_back(-static_cast<float>(random() % 6));
    };
    for (const char* letter : letters) add(letter);
    for (int i = 0; i < 14; ++i) {
      std::string left = letters[random() % 4];
      if (i > 5) left.append(letters[random() % 4]);
      const std::string right = letters[random() % 4];
      add(left + right);
      merged.merges.push_back(left.append(" ").append(right));
    }
    ExpectEqualTokens(scored, false, random);
    ExpectEqualTokens(merged, true, random);
  }
}

}  // namespace
}  // namespace kvd::space_boundaries_test
