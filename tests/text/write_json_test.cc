#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "text/json.h"

namespace kvd {
namespace {

std::string Written(std::string_view json, const JsonStyle& style = {}) {
  const auto value = ParseJson(json);
  if (!value) return value.error().message;
  const auto text = WriteJson(*value, style);
  return text ? *text : text.error().message;
}

class NamedObject : public Object {
 public:
  std::string_view type_name() const override { return "Thing"; }
};

TEST(WriteJsonTest, WritesLikeDumpsOfPython) {
  EXPECT_EQ(Written(R"({"b":[1,2.50,null,true,false],"a":{},"c":[]})"),
            R"({"b": [1, 2.5, null, true, false], "a": {}, "c": []})");
  EXPECT_EQ(Written(R"("é\u0001\"\\\n\r\t\b\f/<")"), "\"\u00e9\\u0001\\\"\\\\\\n\\r\\t\\b\\f/<\"");
  EXPECT_EQ(*WriteJson(Value::Float(NAN)), "NaN");
  EXPECT_EQ(*WriteJson(Value::Float(-INFINITY)), "-Infinity");
  EXPECT_EQ(*WriteJson(Value::Tuple({Value::Int(1)})), "[1]");
}

TEST(WriteJsonTest, FollowsTheStyle) {
  EXPECT_EQ(Written(R"({"a":[1,{}],"b":2})", {.item_separator = ",", .indent = "  "}),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": 2\n}");
  EXPECT_EQ(Written("[1,2]", {.item_separator = ",", .key_separator = ":"}), "[1,2]");
  EXPECT_EQ(Written(R"({"b":1,"a":2})", {.sort_keys = true}), R"({"a": 2, "b": 1})");
  EXPECT_EQ(Written("\"\u00e9\U0001f642\"", {.escape_non_ascii = true}), R"("\u00e9\ud83d\ude42")");
}

TEST(WriteJsonTest, QuotesKeysThatAreNoStrings) {
  Dict dict;
  dict.Set(Value::Int(1), Value::Int(1));
  dict.Set(Value::Float(1.5), Value::Int(2));
  dict.Set(Value::None(), Value::Int(3));
  dict.Set(Value::Bool(false), Value::Int(4));
  EXPECT_EQ(*WriteJson(Value::Of(dict)), R"({"1": 1, "1.5": 2, "null": 3, "false": 4})");
}

TEST(WriteJsonTest, RefusesValuesWithoutAJsonText) {
  EXPECT_EQ(WriteJson(Value()).error().message,
            "Object of type Undefined is not JSON serializable");
  NamedObject object;
  EXPECT_EQ(WriteJson(Value::Of(object)).error().message,
            "Object of type Thing is not JSON serializable");
  Dict dict;
  dict.Set(Value::Tuple({}), Value::Int(1));
  EXPECT_EQ(WriteJson(Value::Of(dict)).error().message,
            "keys must be str, int, float, bool or None");
  Dict mixed;
  mixed.Set(Value::Int(1), Value::Int(1));
  mixed.Set("a", Value::Int(1));
  EXPECT_EQ(WriteJson(Value::Of(mixed), {.sort_keys = true}).error().message,
            "keys of different types cannot be sorted");
}

TEST(WriteJsonTest, BoundsTheResult) {
  const auto text = WriteJson(Value::String(std::string(100, 'x')), {.bytes_max = 50});
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, Code::kTooLarge);
  EXPECT_EQ(text.error().message, "JSON of more than 50 bytes");
}

}  // namespace
}  // namespace kvd
