#include "engine/grammar/answer_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/engine/grammar/earley.h"
#include "tests/engine/grammar/grammar_texts.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A vocabulary and a grammar over it; tokens 0 to 255 are bytes, the texts follow from 256 on.
struct Setting {
  explicit Setting(std::string_view gbnf, const std::vector<std::string>& texts = {})
      : vocabulary(test::ByteVocabulary(texts)) {
    auto of_grammar = GrammarVocabulary::Create(*vocabulary, vocabulary->vocab_size());
    EXPECT_TRUE(of_grammar) << of_grammar.error().message;
    auto compiled = Grammar::Compile(gbnf, *of_grammar);
    EXPECT_TRUE(compiled) << compiled.error().message;
    grammar = *compiled;
  }
  AnswerGrammar Answer(std::vector<GrammarTrigger> triggers = {}) const {
    return AnswerGrammar(grammar, std::move(triggers), *vocabulary);
  }
  std::string TextOf(const std::vector<TokenId>& tokens) const {
    std::string text;
    for (const TokenId token : tokens) text += *vocabulary->Piece(token, true);
    return text;
  }

  std::unique_ptr<Vocabulary> vocabulary;
  std::shared_ptr<Grammar> grammar;
};

TEST(AnswerGrammarTest, ForcedTextBecomesTheLongestTokens) {
  const Setting setting("root ::= \"name: \" [a-z]+", {"na", "name", "name: x", ": ", "me"});
  AnswerGrammar answer = setting.Answer();
  // "name: x" begins with all forced bytes, so no token is certain yet.
  EXPECT_THAT(answer.ForcedTokens(8), IsEmpty());
  const Setting certain("root ::= \"name:; \" [a-z]+", {"na", "name", ":; y", ":;", "me"});
  answer = certain.Answer();
  // ":; y" begins with all bytes that are left after "name".
  EXPECT_THAT(answer.ForcedTokens(8), ElementsAre(257));
  const Setting whole("root ::= \"name:; \" [a-z]+", {"na", "name", ":;", "me"});
  answer = whole.Answer();
  EXPECT_THAT(answer.ForcedTokens(8), ElementsAre(257, 258, TokenId{' '}));
  EXPECT_THAT(answer.ForcedTokens(2), ElementsAre(257, 258));
  EXPECT_THAT(answer.ForcedTokens(0), IsEmpty());
  const Setting open("root ::= \"ab\" | \"ac\"");
  EXPECT_THAT(open.Answer().ForcedTokens(8), ElementsAre(TokenId{'a'}));
  const Setting ends("root ::= \"ab\"?");
  EXPECT_THAT(ends.Answer().ForcedTokens(8), IsEmpty()) << "the text may end";
}

// A generation that is cut after any forced token continues with the tokens that a whole run has.
TEST(AnswerGrammarTest, TheRestOfAForcedRunDoesNotDependOnWhereItResumes) {
  std::mt19937_64 random(7);
  std::size_t forced_runs = 0;
  for (int round = 0; round < 400; ++round) {
    const test::EarleyGrammar grammar = test::RandomGrammar(random);
    if (test::EarleyRecognizer(grammar).IsLeftRecursive()) continue;
    const Setting setting(grammar.ToGbnf(), {"ab", "abb", "ba", "aab", "\xc3\xa8\xc3", "bb"});
    AnswerGrammar answer = setting.Answer();
    for (int steps = 0; steps < 12; ++steps) {
      const std::vector<TokenId> whole = answer.ForcedTokens(AnswerGrammar::kForcedTokensMax);
      forced_runs += whole.size() > 1 ? 1 : 0;
      AnswerGrammar cut = answer;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        ASSERT_TRUE(cut.matcher().Mask()->Contains(whole[i]));
        ASSERT_TRUE(cut.Accept(whole[i]));
        const std::vector<TokenId> rest = cut.ForcedTokens(AnswerGrammar::kForcedTokensMax - i - 1);
        ASSERT_EQ(rest, std::vector<TokenId>(whole.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                             whole.end()))
            << grammar.ToGbnf();
      }
      const std::vector<TokenId> next = test::TokensOf(*cut.matcher().Mask());
      if (next.empty()) break;
      answer = cut;
      if (!answer.Accept(next[random() % next.size()])) break;
    }
  }
  EXPECT_GT(forced_runs, 50u);
}

TEST(AnswerGrammarTest, ATextTriggerMayBeginAndEndInsideTokens) {
  const Setting setting("root ::= \"<go>\" [0-9]+ \"!\"", {"a<", "go>1", "go>x", "x<go>23"});
  const std::vector<GrammarTrigger> triggers = {{.text = "<go>"}, {.text = "<go>2"}};
  AnswerGrammar answer = setting.Answer(triggers);
  EXPECT_FALSE(answer.has_begun());
  for (const char c : {'<', 'g', 'o', '<'}) ASSERT_TRUE(answer.Accept(c));
  EXPECT_FALSE(answer.has_begun());
  ASSERT_TRUE(answer.Accept(256));  // "a<"
  AnswerGrammar refused = answer;
  EXPECT_FALSE(refused.Accept(258)) << "go>x leaves the language";
  EXPECT_FALSE(refused.has_begun());
  ASSERT_TRUE(refused.Accept(257)) << "go>1, after the refusal";
  EXPECT_TRUE(refused.has_begun());
  EXPECT_TRUE(refused.Accept('!'));
  EXPECT_TRUE(refused.matcher().may_end());
  AnswerGrammar whole = setting.Answer(triggers);
  ASSERT_TRUE(whole.Accept(259));
  EXPECT_TRUE(whole.has_begun());
  EXPECT_FALSE(whole.Accept('x'));
  EXPECT_TRUE(whole.Accept('!'));
}

TEST(AnswerGrammarTest, ControlTokensCountAsTextOnlyBeforeTheTrigger) {
  const Setting setting("root ::= \"<think>\" [a-z]+ </think> | <think> \"x\"");
  const auto think = static_cast<TokenId>(setting.vocabulary->vocab_size()) - 3;
  AnswerGrammar by_text = setting.Answer({{.text = "<think>"}});
  ASSERT_TRUE(by_text.Accept(think));
  EXPECT_TRUE(by_text.has_begun());
  EXPECT_TRUE(by_text.Accept('q'));
  AnswerGrammar by_token = setting.Answer({{.token = think}});
  ASSERT_TRUE(by_token.Accept('<'));
  EXPECT_FALSE(by_token.has_begun());
  ASSERT_TRUE(by_token.Accept(think));
  EXPECT_TRUE(by_token.has_begun());
  EXPECT_FALSE(by_token.Accept('q')) << "the token is not its text";
  EXPECT_TRUE(by_token.Accept('x'));
}

TEST(AnswerGrammarTest, NothingIsForcedBeforeTheTrigger) {
  const Setting setting("root ::= \"abc\"");
  EXPECT_THAT(setting.Answer({{.text = "a"}}).ForcedTokens(8), IsEmpty());
}

}  // namespace
}  // namespace kvd
