#include "http/api/text_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/json.h"

namespace kvd::http {
namespace {

using ::testing::ElementsAre;

std::string ErrorOf(std::string_view json) {
  const auto tokens = TokenIdsOf(*ParseJson(json), 512, "tokens");
  return tokens ? "" : tokens.error().message;
}

TEST(TokenIdsOfTest, IdsOfTheVocabularyAreRead) {
  EXPECT_THAT(*TokenIdsOf(*ParseJson("[0,511,3.0]"), 512, "tokens"), ElementsAre(0, 511, 3));
  EXPECT_THAT(*TokenIdsOf(*ParseJson("[]"), 512, "tokens"), ElementsAre());
}

TEST(TokenIdsOfTest, EachInvalidIdIsNamed) {
  EXPECT_EQ(ErrorOf("7"), "tokens: a list of token ids is needed, not 7");
  EXPECT_EQ(ErrorOf(R"([1,"a"])"), R"(tokens[1]: a token id is needed, not "a")");
  EXPECT_EQ(ErrorOf("[1,true]"), "tokens[1]: a token id is needed, not true");
  EXPECT_EQ(ErrorOf("[1.5]"), "tokens[0]: a token id is needed, not 1.5");
  EXPECT_EQ(ErrorOf("[512]"), "tokens[0]: 512 is not a token, the vocabulary has 512");
  EXPECT_EQ(ErrorOf("[-1]"), "tokens[0]: -1 is not a token, the vocabulary has 512");
  EXPECT_EQ(ErrorOf("[4294967296]"),
            "tokens[0]: 4294967296 is not a token, the vocabulary has 512");
}

}  // namespace
}  // namespace kvd::http
