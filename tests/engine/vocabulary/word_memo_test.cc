#include "engine/vocabulary/word_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kvd {
namespace {

using testing::ElementsAre;

TEST(WordMemoTest, ARepeatedWordHasItsTokens) {
  WordMemo memo(100);
  std::vector<TokenId> tokens = {7};
  EXPECT_FALSE(memo.Append("hello", tokens));
  tokens.insert(tokens.end(), {1, 2});
  memo.Remember("hello", 1, tokens);
  EXPECT_TRUE(memo.Append("hello", tokens));
  EXPECT_FALSE(memo.Append("hellp", tokens));
  EXPECT_THAT(tokens, ElementsAre(7, 1, 2, 1, 2));
}

TEST(WordMemoTest, AWordWithoutTokensIsRememberedToo) {
  WordMemo memo(0);
  std::vector<TokenId> tokens;
  memo.Remember("ab", 0, tokens);
  EXPECT_TRUE(memo.Append("ab", tokens));
  EXPECT_THAT(tokens, ElementsAre());
}

TEST(WordMemoTest, OtherWordsNeverGetItsTokens) {
  std::mt19937 random(2);
  const std::string text = [&] {
    std::string made(40'000, 'a');
    for (char& letter : made) letter = "ab"[random() % 2];
    return made;
  }();
  WordMemo memo(64);
  std::vector<TokenId> tokens;
  for (std::size_t begin = 0; begin + 33 < text.size(); begin += 7) {
    const std::string_view word = std::string_view(text).substr(begin, 2 + random() % 31);
    const std::size_t first = tokens.size();
    if (memo.Append(word, tokens)) {
      EXPECT_EQ(std::string(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()),
                word);
      continue;
    }
    for (const char letter : word) tokens.push_back(letter);
    memo.Remember(word, first, tokens);
  }
}

}  // namespace
}  // namespace kvd
