// Tests that every text of the tokenizer cases (vocabulary_case.h) yields the tokens of the model's
// original tokenizer, and that detokenizing these tokens yields the text.
#include <gtest/gtest.h>

#include "tests/engine/vocabulary/vocabulary_case.h"

namespace kvd {
namespace {

TEST(VocabularyCasesTest, EveryTextHasTheTokensOfTheReferenceTokenizer) {
  if (const std::string missing = MissingVocabularies(); !missing.empty()) GTEST_SKIP() << missing;
  for (const std::string& name : VocabularyNames()) {
    std::unique_ptr<Vocabulary> vocabulary = LoadVocabulary(name);
    ASSERT_NE(vocabulary, nullptr) << name;
    std::vector<VocabularyCase> cases = LoadCases(name);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Result<std::vector<TokenId>> tokens = vocabulary->Tokenize(cases[i].text, {});
      ASSERT_TRUE(tokens.has_value()) << name << ": " << tokens.error().message;
      EXPECT_EQ(*tokens, cases[i].tokens)
          << name << ", text " << i << ": '" << cases[i].text << "'";
    }
    RecordProperty(name, static_cast<int>(cases.size()));
  }
}

TEST(VocabularyCasesTest, EveryTextIsRestoredFromItsTokens) {
  if (const std::string missing = MissingVocabularies(); !missing.empty()) GTEST_SKIP() << missing;
  for (const std::string& name : VocabularyNames()) {
    std::unique_ptr<Vocabulary> vocabulary = LoadVocabulary(name);
    ASSERT_NE(vocabulary, nullptr) << name;
    for (const VocabularyCase& one : LoadCases(name)) {
      Result<std::string> text = vocabulary->Detokenize(one.tokens, {});
      ASSERT_TRUE(text.has_value()) << text.error().message;
      EXPECT_EQ(*text, one.text) << name;
    }
  }
}

}  // namespace
}  // namespace kvd
