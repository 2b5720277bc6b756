#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "text/json.h"

namespace kvd {
namespace {

std::string ErrorOf(std::string_view text, const JsonLimits& limits = {}) {
  const auto value = ParseJson(text, limits);
  return value ? "no error" : value.error().message;
}

TEST(ParseJsonTest, ReadsEveryKindOfValue) {
  const auto value = ParseJson(R"({"a": [null, true, -1, 2.5, "x\u00e9\ud83d\ude42\n"], "b": {}})");
  ASSERT_TRUE(value.has_value()) << value.error().message;
  const auto& items = value->dict().Find("a").items();
  ASSERT_EQ(items.size(), 5u);
  EXPECT_TRUE(items[0].is_none());
  EXPECT_TRUE(items[1].truth());
  EXPECT_EQ(items[2].integer(), -1);
  EXPECT_EQ(items[3].real(), 2.5);
  EXPECT_EQ(items[4].view(), "x\u00e9\U0001f642\n");
  EXPECT_TRUE(value->dict().Find("b").dict().empty());
}

TEST(ParseJsonTest, KeepsTheOrderOfKeysAndTheLastOfEqualKeys) {
  const auto value = ParseJson(R"({"z": 1, "a": 2, "z": 3})");
  ASSERT_TRUE(value.has_value());
  ASSERT_EQ(value->dict().size(), 2u);
  EXPECT_EQ(value->dict().items()[0].first.view(), "z");
  EXPECT_EQ(value->dict().items()[0].second.integer(), 3);
}

TEST(ParseJsonTest, ReadsNumbersExactly) {
  EXPECT_EQ(ParseJson("9223372036854775807")->integer(), INT64_MAX);
  EXPECT_EQ(ParseJson("-9223372036854775808")->integer(), INT64_MIN);
  EXPECT_TRUE(ParseJson("1.0")->is_float());
  EXPECT_TRUE(ParseJson("1e2")->is_float());
  EXPECT_EQ(ParseJson("7.1e-7")->real(), 7.1e-7);
  EXPECT_EQ(ParseJson("123456789012345678901234567890.0")->real(),
            123456789012345678901234567890.0);
}

TEST(ParseJsonTest, RefusesNumbersOutOfRangeByName) {
  EXPECT_EQ(ErrorOf("[1,\n 9223372036854775808]").substr(0, 5), "JSON ");
  EXPECT_NE(ErrorOf("9223372036854775808").find("the integer exceeds 64 bits"), std::string::npos);
  EXPECT_NE(ErrorOf("-9223372036854775809").find("the integer exceeds 64 bits"), std::string::npos);
  EXPECT_NE(ErrorOf("[1e400]").find("the number exceeds the range of a double"), std::string::npos);
}

TEST(ParseJsonTest, NamesTheLineOfAMistake) {
  EXPECT_EQ(ErrorOf("[1,\n2,\n x]").substr(0, 21), "JSON line 3, column 2");
  for (const char* text : {"", "{", "[1", "\"a", "tru", "[1,]", "{\"a\"}", "{a:1}", "1 2", "[1]]",
                           "\"\\q\"", "\"\\ud800\"", "\"\xff\"", "01", "+1", "NaN", "'a'"}) {
    EXPECT_EQ(ErrorOf(text).substr(0, 10), "JSON line ") << text;
  }
}

TEST(ParseJsonTest, BoundsNestingAndBytes) {
  const std::string deep = std::string(10, '[') + std::string(10, ']');
  EXPECT_TRUE(ParseJson(deep, {.bytes_max = 100, .nesting_max = 10}).has_value());
  const auto too_deep = ParseJson(deep, {.bytes_max = 100, .nesting_max = 9});
  ASSERT_FALSE(too_deep.has_value());
  EXPECT_EQ(too_deep.error().code, Code::kTooLarge);
  EXPECT_EQ(ErrorOf("[1, 2]", {.bytes_max = 5}), "JSON: 6 bytes, at most 5");
}

TEST(ParseJsonTest, EachKindOfValueIsCountedBeforeItIsCreated) {
  const std::string long_text(640, 'x');
  const std::pair<std::string, std::uint64_t> cases[] = {
      {"1", 1},         {"-2.5e3", 1},       {"true", 1},
      {"null", 1},      {"\"\"", 2},         {"\"" + long_text + "\"", 12},
      {"[]", 2},        {"[1,2]", 4},        {"{}", 4},
      {"{\"a\":1}", 7}, {"[{},[\"\"]]", 10}, {"{\"" + long_text + "\":null}", 17}};
  for (const auto& [text, units] : cases) {
    EXPECT_TRUE(ParseJson(text, {.units_max = units})) << text;
    const auto refused = ParseJson(text, {.units_max = units - 1});
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kTooLarge) << text;
    EXPECT_THAT(refused.error().message, testing::HasSubstr("too many values")) << text;
  }
}

TEST(ParseJsonTest, AShortTextOfManyObjectsIsRefusedBeforeAllocation) {
  std::string text = "[";
  for (int i = 0; i < 1'000'000; ++i) text += "{},";
  text += "1]";
  const auto refused = ParseJson(text);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kTooLarge);
}

}  // namespace
}  // namespace kvd
