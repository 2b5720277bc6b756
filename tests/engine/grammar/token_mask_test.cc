#include "engine/grammar/token_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/grammar/grammar_vocabulary.h"
#include "tests/engine/grammar/grammar_texts.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenMaskTest, AMaskOfFewTokensIsAList) {
  std::vector<std::uint64_t> bits(10);
  bits[0] = 1u << 3;
  bits[9] = 5;
  const TokenMask few(640, bits, true);
  EXPECT_TRUE(few.is_list());
  EXPECT_THAT(few.list(), ElementsAre(3, 576, 578));
  EXPECT_TRUE(few.bits().empty());
  bits[4] = ~std::uint64_t{0};
  const TokenMask many(640, bits, false);
  EXPECT_FALSE(many.is_list());
  EXPECT_TRUE(many.list().empty());
  EXPECT_EQ(many.size(), 67u);
  EXPECT_FALSE(many.is_complete());
  for (TokenId token = -2; token < 700; ++token) {
    const bool is_in = token == 3 || token == 576 || token == 578 || (token >= 256 && token < 320);
    EXPECT_EQ(many.Contains(token), is_in) << token;
    EXPECT_EQ(few.Contains(token), is_in && (token < 256 || token >= 320)) << token;
  }
  EXPECT_TRUE(TokenMask(640, std::vector<std::uint64_t>(10), true).empty());
}

TEST(VocabularyTrieTest, SubtreesAndTheirTokensAreAdjacent) {
  const auto trie = VocabularyTrie::Create({{"b", 5}, {"abc", 1}, {"ab", 2}, {"ab", 0}, {"ad", 9}});
  ASSERT_TRUE(trie.has_value());
  // Nodes: "" a ab abc ad b.
  ASSERT_EQ(trie->node_count(), 6u);
  EXPECT_THAT(trie->tokens(), ElementsAre(0, 2, 1, 9, 5));
  EXPECT_THAT(trie->TokensAt(2), ElementsAre(0, 2));
  EXPECT_THAT(trie->TokensUnder(1), ElementsAre(0, 2, 1, 9));
  EXPECT_TRUE(trie->TokensAt(1).empty());
  EXPECT_EQ(trie->skip(1), 5u);
  EXPECT_EQ(trie->skip(2), 4u);
  EXPECT_EQ(trie->skip(5), 6u);
  EXPECT_EQ(trie->depth(3), 3u);
  EXPECT_EQ(trie->byte(4), 'd');
  EXPECT_EQ(trie->depth_max(), 3u);
  EXPECT_EQ(VocabularyTrie::Create({})->node_count(), 1u);
}

TEST(VocabularyTrieTest, GroupsSeparateCompleteFromIncompleteCharacters) {
  const auto trie = VocabularyTrie::Create({{"a\xc3\xa9", 0}, {"\xa9", 1}, {"1\xc3", 2}});
  const auto& ascii = VocabularyTrie::AsciiGroups();
  // Nodes: "" 1 1c3 a ac3 ac3a9 a9.
  EXPECT_EQ(trie->groups(1), ascii['1'] | VocabularyTrie::kBrokenGroup);
  EXPECT_EQ(trie->groups(3), ascii['a'] | VocabularyTrie::kCharacterGroup);
  EXPECT_EQ(trie->groups(4), VocabularyTrie::kCharacterGroup);
  EXPECT_EQ(trie->groups(5), VocabularyTrie::kBrokenGroup);
  EXPECT_EQ(trie->groups(6), VocabularyTrie::kBrokenGroup);
  EXPECT_EQ(ascii['b'], ascii['z']);
  EXPECT_NE(ascii['"'], ascii['\\']);
  for (const auto group : ascii)
    EXPECT_EQ(group & (VocabularyTrie::kCharacterGroup | VocabularyTrie::kBrokenGroup), 0u);
}

TEST(GrammarVocabularyTest, ControlAndEndTokensHaveNoText) {
  const auto vocabulary = test::GrammarVocabularyOf({"ab"});
  EXPECT_EQ(vocabulary->vocab_size(), 260u);
  EXPECT_EQ(vocabulary->row_size(), 265u);
  EXPECT_EQ(vocabulary->Text(256), "ab");
  EXPECT_EQ(vocabulary->Text(test::ThinkToken(*vocabulary)), "");
  EXPECT_EQ(vocabulary->Text(test::EndToken(*vocabulary)), "");
  EXPECT_EQ(vocabulary->FindBracketed("<think>"), test::ThinkToken(*vocabulary));
  EXPECT_EQ(vocabulary->FindBracketed("<thin>"), kNoToken);
  EXPECT_TRUE(vocabulary->IsEndOfGeneration(test::EndToken(*vocabulary)));
  EXPECT_EQ(vocabulary->trie().tokens().size(), 257u);
  EXPECT_GT(vocabulary->held_bytes(), 257u * 24);
}

TEST(GrammarVocabularyTest, ARowShorterThanTheVocabularyIsRefused) {
  const auto vocabulary = test::ByteVocabulary({});
  const auto made = GrammarVocabulary::Create(*vocabulary, 258);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  EXPECT_THAT(made.error().message, HasSubstr("row_size: 258, the vocabulary has 259 tokens"));
}

TEST(GrammarVocabularyTest, AVocabularyWithoutTextIsRefused) {
  VocabularyData data;
  data.model = "no_vocab";
  data.vocab_size = 10;
  const auto vocabulary = Vocabulary::Create(std::move(data));
  ASSERT_TRUE(vocabulary.has_value());
  EXPECT_EQ(GrammarVocabulary::Create(**vocabulary, 10).error().code, Code::kNoTokenizer);
}

}  // namespace
}  // namespace kvd
