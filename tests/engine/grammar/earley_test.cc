// Compares matchers with the naive recogniser on random grammars: after every token, whether the
// text is a sentence, which tokens the mask has, and which tokens are accepted.
#include "tests/engine/grammar/earley.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"
#include "tests/engine/grammar/grammar_texts.h"
#include "tests/support/test_scale.h"

namespace kvd::test {
namespace {

using ::testing::HasSubstr;

// Texts whose characters are split over tokens, and texts of several characters.
const std::vector<std::string>& TokenTexts() {
  static const std::vector<std::string> texts{"aa",
                                              "ab",
                                              "ba",
                                              "abab",
                                              "\u00e9",
                                              "\u00e8",
                                              "a\u00e9b",
                                              std::string("\xa9") + "a",
                                              "b\xc3",
                                              "\u4f60",
                                              "b\u4f60\x61",
                                              "\xe4\xbd",
                                              "\xbd\xa0",
                                              "\U0001F600",
                                              "\xf0\x9f",
                                              "\x98\x80",
                                              "a\xf0\x9f\x98",
                                              "\x80\xc3\xa8",
                                              "\u00e9\u00e9",
                                              "aaaaaaaa",
                                              "zz",
                                              "\u4f60\xe4",
                                              "\xed\xa0",
                                              "\xc0\x80"};
  return texts;
}

class EarleyTest : public testing::Test {
 protected:
  // Follows random tokens; returns the number of tokens that the mask and the recogniser had.
  void Follow(const std::shared_ptr<Grammar>& grammar, const EarleyGrammar& data,
              std::mt19937_64& random) {
    EarleyRecognizer recognizer(data);
    GrammarMatcher matcher(grammar);
    const GrammarVocabulary& vocabulary = grammar->vocabulary();
    std::string text;
    for (int step = 0; step < 7; ++step) {
      ASSERT_EQ(matcher.may_end(), recognizer.IsSentence()) << text << "\n" << data.ToGbnf();
      const auto mask = matcher.Mask();
      ASSERT_TRUE(mask->is_complete());
      std::vector<TokenId> allowed;
      for (TokenId token = 0; token < EndToken(vocabulary) - 2; ++token) {
        const bool is_viable = recognizer.IsViable(vocabulary.Text(token));
        ASSERT_EQ(mask->Contains(token), is_viable)
            << "token " << token << " after \"" << text << "\"\n"
            << data.ToGbnf();
        if (is_viable) allowed.push_back(token);
      }
      ASSERT_EQ(mask->Contains(EndToken(vocabulary)), recognizer.IsSentence());
      ASSERT_EQ(mask->size(), allowed.size() + (recognizer.IsSentence() ? 1 : 0));
      ASSERT_EQ(matcher.is_dead(), mask->empty());
      allowed_count_ += allowed.size();
      const auto any = static_cast<TokenId>(random() % (256 + TokenTexts().size()));
      ASSERT_EQ(GrammarMatcher(matcher).Accept(any).has_value(), mask->Contains(any));
      if (allowed.empty()) return;
      const TokenId token = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.Accept(token).has_value());
      recognizer.Append(vocabulary.Text(token));
      text += vocabulary.Text(token);
    }
    ++long_texts_;
  }

  std::uint64_t allowed_count_ = 0;
  int long_texts_ = 0;
};

TEST_F(EarleyTest, MatchersAndMasksEqualTheNaiveRecogniserOnRandomGrammars) {
  const auto vocabulary = GrammarVocabularyOf(TokenTexts());
  const int count = Scaled(10'000);
  int recursive = 0;
  for (int number = 0; number < count && !HasFatalFailure(); ++number) {
    std::mt19937_64 random(static_cast<std::uint64_t>(number));
    const EarleyGrammar data = RandomGrammar(random);
    const std::string gbnf = data.ToGbnf();
    SCOPED_TRACE(number);
    const auto grammar = Grammar::Compile(gbnf, vocabulary);
    if (EarleyRecognizer(data).IsLeftRecursive()) {
      ++recursive;
      ASSERT_FALSE(grammar.has_value()) << gbnf;
      EXPECT_THAT(grammar.error().message, HasSubstr("is left recursive")) << gbnf;
      continue;
    }
    ASSERT_TRUE(grammar.has_value()) << grammar.error().message << "\n" << gbnf;
    for (int walk = 0; walk < 3 && !HasFatalFailure(); ++walk) Follow(*grammar, data, random);
  }
  EXPECT_GT(recursive, count / 100);
  EXPECT_GT(long_texts_, count / 4);
  EXPECT_GT(allowed_count_, static_cast<std::uint64_t>(count) * 20);
}

}  // namespace
}  // namespace kvd::test
