#include "http/api/infill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "text/json.h"

namespace kvd::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr InfillTokens kTokens = {
    .prefix = 101, .suffix = 102, .middle = 103, .repository = 104, .file = 105};

InfillParts Parts() { return {.prefix = {1, 2}, .suffix = {3}, .prompt = {4}, .extra = {104, 9}}; }

std::vector<TokenId> Counted(std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(InfillPromptTest, PartsAreInTheOrderOfLlamaServer) {
  EXPECT_THAT(InfillPrompt(kTokens, Parts(), {.context_tokens = 2048}),
              ElementsAre(104, 9, 101, 1, 2, 4, 102, 3, 103));
  EXPECT_THAT(InfillPrompt(kTokens, Parts(), {.context_tokens = 2048, .bos = 5}),
              ElementsAre(104, 9, 5, 101, 1, 2, 4, 102, 3, 103));
  EXPECT_THAT(InfillPrompt(kTokens, Parts(), {.context_tokens = 2048, .is_suffix_first = true}),
              ElementsAre(104, 9, 102, 3, 101, 1, 2, 4, 103));
}

TEST(InfillPromptTest, LongPartsAreCutToTheContext) {
  const InfillParts parts = {.prefix = Counted(5000),
                             .suffix = Counted(5000),
                             .prompt = Counted(10),
                             .extra = Counted(5000)};
  const InfillLimits limits = {.context_tokens = 1000, .predict_max = 64};
  const std::vector<TokenId> prompt = InfillPrompt(kTokens, parts, limits);
  // A batch of 500: the last 375 of the prefix, the first 125 - 12 of the suffix; the last
  // 1000 - 500 - 128 of the extra tokens.
  EXPECT_EQ(prompt.size(), 372u + 1 + 375 + 10 + 1 + 113 + 1);
  EXPECT_EQ(prompt.front(), 5000 - 372);
  EXPECT_EQ(prompt[372], 101);
  EXPECT_EQ(prompt[373], 5000 - 375);
  EXPECT_LE(prompt.size() + 64, limits.context_tokens);
}

TEST(InfillPromptTest, ASmallerBatchLeavesMoreRoomForOtherFiles) {
  const InfillParts parts = {
      .prefix = Counted(5000), .suffix = Counted(5000), .prompt = {}, .extra = Counted(5000)};
  const InfillLimits limits = {.context_tokens = 1000, .predict_max = 64, .batch_tokens = 100};
  const std::vector<TokenId> prompt = InfillPrompt(kTokens, parts, limits);
  // The last 75 of the prefix, the first 25 - 2 of the suffix, the last 1000 - 100 - 128 of extra.
  EXPECT_EQ(prompt.size(), 772u + 1 + 75 + 1 + 23 + 1);
}

TEST(InfillPromptTest, ALongPromptRemovesTheSuffix) {
  const InfillParts parts = {
      .prefix = {1}, .suffix = Counted(50), .prompt = Counted(900), .extra = {}};
  const std::vector<TokenId> prompt = InfillPrompt(kTokens, parts, {.context_tokens = 1000});
  EXPECT_EQ(prompt.size(), 1u + 1 + 900 + 1 + 1);
}

TEST(InfillTokensTest, InfillTokensAreNumbersAmongTheTexts) {
  ChatTexts texts;
  EXPECT_THAT(CheckInfillTokens(InfillTokensOf(texts)).error().message,
              HasSubstr("Infill is not supported by this model: prefix token is missing. suffix "
                        "token is missing. middle token is missing."));
  texts.tokens = {{"#fim_pre", "12"}, {"#fim_suf", "0"}, {"#fim_mid", "7"}};
  const InfillTokens tokens = InfillTokensOf(texts);
  EXPECT_EQ(tokens.prefix, 12);
  EXPECT_EQ(tokens.suffix, 0);
  EXPECT_EQ(tokens.middle, 7);
  EXPECT_EQ(tokens.file, kNoToken);
  EXPECT_TRUE(CheckInfillTokens(tokens));
}

std::string ErrorOfFields(std::string_view json) {
  const auto body = ParseJson(json);
  const auto fields = ReadInfillFields(*body);
  return fields ? "" : fields.error().message;
}

TEST(InfillFieldsTest, EachWrongFieldIsNamed) {
  EXPECT_EQ(ErrorOfFields(R"({"input_suffix":"b"})"), R"("input_prefix" is required)");
  EXPECT_EQ(ErrorOfFields(R"({"input_prefix":"a"})"), R"("input_suffix" is required)");
  const auto with = [](std::string_view more) {
    return ErrorOfFields(R"({"input_prefix":"a","input_suffix":"b",)" + std::string(more) + "}");
  };
  EXPECT_THAT(with(R"("prompt":[1])"), HasSubstr("prompt: a text is needed"));
  EXPECT_THAT(with(R"("input_extra":{})"), HasSubstr("input_extra: a list is needed"));
  EXPECT_THAT(with(R"("input_extra":[{}])"), HasSubstr("input_extra[0].text: is required"));
  EXPECT_THAT(with(R"("input_extra":[{"text":"a"},{"filename":123,"text":"abc"}])"),
              HasSubstr("input_extra[1].filename: a text is needed"));
  EXPECT_THAT(with(R"("input_extra":[{"filename":"a","text":456}])"),
              HasSubstr("input_extra[0].text: a text is needed"));
  EXPECT_THAT(with(R"("input_extra":[7])"), HasSubstr("input_extra[0]: an object"));
  EXPECT_EQ(with(R"("input_extra":[{"text":"a"}],"prompt":"c")"), "");
}

}  // namespace
}  // namespace kvd::http
