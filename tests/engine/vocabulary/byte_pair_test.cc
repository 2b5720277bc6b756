#include "engine/vocabulary/byte_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using testing::ElementsAre;
using namespace std::string_literals;

std::vector<TokenId> TokensOf(const Vocabulary& vocabulary, std::string_view text) {
  Result<std::vector<TokenId>> tokens = vocabulary.Tokenize(text, {});
  EXPECT_TRUE(tokens.has_value()) << tokens.error().message;
  return tokens ? *tokens : std::vector<TokenId>();
}

std::string TextOf(const Vocabulary& vocabulary, std::span<const TokenId> tokens) {
  Result<std::string> text = vocabulary.Detokenize(tokens, {});
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text ? *text : std::string();
}

std::string RandomBytes(std::mt19937& random, std::size_t bytes_max) {
  std::string text(random() % (bytes_max + 1), '\0');
  for (char& byte : text)
    byte = static_cast<char>(random() % 4 == 0 ? random() : "he lo1\n\xe2\x82\xac'"[random() % 11]);
  return text;
}

TEST(BytePairTest, MergesAreAppliedInTheOrderOfTheList) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  EXPECT_THAT(TokensOf(*vocabulary, "hello"), ElementsAre(259));
  EXPECT_THAT(TokensOf(*vocabulary, "hello hello"), ElementsAre(259, 260));
  EXPECT_THAT(TokensOf(*vocabulary, "hellx"), ElementsAre(258, 'x'));
  EXPECT_THAT(TokensOf(*vocabulary, "lllll"), ElementsAre(257, 257, 'l')) << "leftmost first";
  EXPECT_THAT(TokensOf(*vocabulary, ""), ElementsAre());
}

TEST(BytePairTest, AWordThatIsATokenIsMergedAnywayUnlessThePretokenizerIgnoresMerges) {
  VocabularyData data = SmallBytePairData();
  data.tokens.emplace_back("lo");
  data.token_types.push_back(1);
  data.scores.push_back(0);
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "lo"), ElementsAre('l', 'o'));
  data.pre = "llama-bpe";
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "lo"), ElementsAre(263));
}

TEST(BytePairTest, AMergeWithoutATokenIsWrittenAsSmallerTokens) {
  VocabularyData data = SmallBytePairData();
  data.merges = {"x y", "xy z", "\u0120 x", "\u0120x y"};
  auto vocabulary = MakeVocabulary(data);
  EXPECT_THAT(TokensOf(*vocabulary, "xyz"), ElementsAre('x', 'y', 'z'));
  // As in llama.cpp, a merge result that is not a token is spelled byte by byte, and bytes above
  // 127 are not looked up as tokens. The two bytes of U+0120, which represents the space, are
  // therefore lost.
  EXPECT_THAT(TokensOf(*vocabulary, " xw"), ElementsAre('x', 'w'));
}

TEST(BytePairTest, OfTwoEqualMergesTheFirstApplies) {
  VocabularyData data = SmallBytePairData();
  data.merges = {"h e", "e l", "h e"};
  EXPECT_THAT(TokensOf(*MakeVocabulary(data), "hel"), ElementsAre(256, 'l'));
}

TEST(BytePairTest, AnyBytesAreRestoredFromTheirTokens) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  std::mt19937 random(1);
  for (int i = 0; i < test::Scaled(3000, 3000); ++i) {
    std::string text = RandomBytes(random, 40);
    EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, text)), text);
  }
}

TEST(BytePairTest, PublishedVocabulariesRestoreAnyBytesFromTheirTokens) {
  if (const std::string missing = MissingVocabularies(); !missing.empty()) GTEST_SKIP() << missing;
  for (const std::string& name : VocabularyNames()) {
    auto vocabulary = LoadVocabulary(name);
    ASSERT_NE(vocabulary, nullptr);
    if (vocabulary->kind() != Vocabulary::Kind::kBytePair) continue;
    // Some vocabularies lack tokens for bytes that did not occur in their training text.
    std::set<char> known;
    for (TokenId token = 0; vocabulary->Contains(token); ++token) {
      std::string piece(*vocabulary->Piece(token, false));
      if (piece.size() == 1) known.insert(piece[0]);
    }
    std::mt19937 random(2);
    for (int i = 0; i < test::Scaled(300, 300); ++i) {
      std::string text = RandomBytes(random, 60);
      std::erase_if(text, [&known](char byte) { return !known.contains(byte); });
      EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, text)), text) << name;
    }
  }
}

// The definition of byte-pair merging: repeatedly merges the pair of neighbours with the lowest
// rank, and of equal pairs the leftmost, until no pair has a rank.
std::vector<std::string> NaiveMerge(
    std::vector<std::string> symbols,
    const std::map<std::pair<std::string, std::string>, int>& ranks) {
  while (true) {
    int best = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found == ranks.end() || (best >= 0 && found->second >= best)) continue;
      best = found->second;
      at = i;
    }
    if (best < 0) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BytePairTest, RandomVocabulariesMergeByTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < test::Scaled(40, 40); ++round) {
    VocabularyData data = SmallBytePairData();
    data.tokens.resize(256);
    data.merges.clear();
    data.eos.reset();
    std::vector<std::string> known = {"a", "b", "c"};
    std::map<std::pair<std::string, std::string>, int> ranks;
    for (int i = 0; i < 25; ++i) {
      std::string left = known[random() % known.size()];
      std::string right = known[random() % known.size()];
      std::string joined = left + right;
      if (joined.size() > 12 || std::ranges::find(data.tokens, joined) != data.tokens.end())
        continue;
      ranks.emplace(std::pair(left, right), static_cast<int>(data.merges.size()));
      data.merges.push_back(std::string(left).append(" ").append(right));
      data.tokens.push_back(joined);
      known.push_back(joined);
    }
    data.token_types.clear();
    data.scores.clear();
    auto vocabulary = MakeVocabulary(data);
    ASSERT_NE(vocabulary, nullptr);
    for (int i = 0; i < 40; ++i) {
      std::string text(random() % 60, 'a');
      std::vector<std::string> symbols;
      for (char& letter : text) symbols.emplace_back(1, letter = "abc"[random() % 3]);
      std::vector<std::string> pieces;
      for (TokenId token : TokensOf(*vocabulary, text))
        pieces.emplace_back(*vocabulary->Piece(token, false));
      EXPECT_EQ(pieces, NaiveMerge(symbols, ranks)) << text;
    }
  }
}

TEST(BytePairTest, MegabytesOfOneCharacterAreOneLongWord) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  for (char letter : {'l', ' ', '\0', '\xff', '1'}) {
    std::string text(test::IsScaledDown() ? 500'000 : 2'000'000, letter);
    EXPECT_EQ(TextOf(*vocabulary, TokensOf(*vocabulary, text)), text);
  }
}

TEST(BytePairTest, InvalidBytesAreSplitLikeTheReplacementCharacterAndKept) {
  auto vocabulary = MakeVocabulary(SmallBytePairData());
  EXPECT_THAT(TokensOf(*vocabulary, "\xffhello"), ElementsAre(0xff, 259));
  EXPECT_THAT(TokensOf(*vocabulary, "hello\xe2\x82 hello"), ElementsAre(259, 0xe2, 0x82, 260));
}

TEST(BytePairTest, MergesThatAreMissingOrMalformedAreRefused) {
  for (const std::vector<std::string>& merges : {std::vector<std::string>{},
                                                 {"h e", "he"},
                                                 {"h "},
                                                 {" h"},
                                                 {""},
                                                 {std::string(200'000, 'x') + " y"}}) {
    VocabularyData data = SmallBytePairData();
    data.merges = merges;
    auto made = Vocabulary::Create(data);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::kCorrupt);
    EXPECT_NE(made.error().message.find("tokenizer.ggml.merges"), std::string::npos)
        << made.error().message;
  }
}

}  // namespace
}  // namespace kvd
