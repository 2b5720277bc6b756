// JsonScanner accepts and refuses objects byte by byte as the parser of whole texts does.
#include "text/tool_calls/json_scanner.h"

#include <gtest/gtest.h>

#include "text/json.h"

namespace kvd {
namespace {

bool Accepts(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.Take(text[i]);
    if (step == JsonScanner::Step::kFail) return false;
    if (step == JsonScanner::Step::kEnd) return i + 1 == text.size();
  }
  return false;
}

TEST(JsonScannerTest, AcceptsObjects) {
  for (const std::string_view text :
       {"{}", "{ }", R"({"a":1})", R"({"a" : [ ] , "b":[1,2 , {}],"c":{"d":null}})",
        R"({"n":[0,-0,1,-12,1.5,-0.25,1e5,1E+5,1.5e-3,0e0]})", R"({"w":[true,false,null]})",
        R"({"s":"\"\\\/\b\f\n\r\t\u00e9é","":""})"}) {
    EXPECT_TRUE(Accepts(text)) << text;
    EXPECT_TRUE(ParseJson(text).has_value()) << text;
  }
}

TEST(JsonScannerTest, RefusesEverythingElse) {
  for (const std::string_view text : {"",
                                      "[]",
                                      "1",
                                      "\"a\"",
                                      " {}",
                                      "{",
                                      "{,}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{\"a\":01}",
                                      "{\"a\":1.}",
                                      "{\"a\":.5}",
                                      "{\"a\":+1}",
                                      "{\"a\":1e}",
                                      "{\"a\":1e+}",
                                      "{\"a\":-}",
                                      "{\"a\":--1}",
                                      "{\"a\":1 2}",
                                      "{\"a\":tru}",
                                      "{\"a\":truee}",
                                      "{\"a\":[1,]}",
                                      "{\"a\":[1}",
                                      "{\"a\":1]",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\\u12g4\"}",
                                      "{\"a\":'b'}",
                                      "{\"a\":1}}"}) {
    EXPECT_FALSE(Accepts(text)) << text;
    EXPECT_FALSE(ParseJson(text).has_value() && ParseJson(text)->is_dict() && text[0] == '{')
        << text;
  }
}

TEST(JsonScannerTest, AcceptsControlCharactersInStrings) {
  EXPECT_TRUE(Accepts("{\"a\":\"x\ny\tz\"}"));
  EXPECT_FALSE(Accepts("{\"a\":\x01}"));
}

TEST(JsonScannerTest, BoundsTheNesting) {
  const auto nested = [](std::size_t levels) {
    return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  EXPECT_TRUE(Accepts(nested(JsonScanner::kNestingMax)));
  EXPECT_FALSE(Accepts(nested(JsonScanner::kNestingMax + 1)));
}

TEST(JsonScannerTest, QuotesEveryByte) {
  std::string text;
  for (int c = 0; c < 128; ++c) text += static_cast<char>(c);
  const auto value = ParseJson(QuotedJson(text));
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->view(), text);
}

}  // namespace
}  // namespace kvd
