// Types, constants, and schemas without constraints.
#include <gtest/gtest.h>

#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

TEST(SchemaTypesTest, TrueAndTheEmptySchemaAreAnyValue) {
  for (const char* schema : {"true", "{}", R"({"description": "x", "unknown": [1]})"}) {
    ExpectTexts(schema,
                {"null", "true", "-12.5e3", R"("a\n\u00e9\ud83d\ude00")", "[]", "[1, [2]]", "{}",
                 R"({"a": {"b": null}, "c": []})", "[\n 1,\n\t2 ]"},
                {"", "nul", "01", "1.", ".5", "+1", "\"\n\"", R"("\x")", R"("\ud83d")",
                 R"("\udc00x")", "[1,]", "{a: 1}", "{\"a\" 1}", "1 2", "\"\x01\""});
  }
}

TEST(SchemaTypesTest, EachTypeAcceptsItsTextsOnly) {
  const std::vector<std::string> texts = {"null", "true", "5", "5.5", "\"s\"", "[1]", "{\"a\":1}"};
  const std::vector<std::pair<std::string, std::vector<std::size_t>>> types = {
      {"\"null\"", {0}},
      {"\"boolean\"", {1}},
      {"\"integer\"", {2}},
      {"\"number\"", {2, 3}},
      {"\"string\"", {4}},
      {"\"array\"", {5}},
      {"\"object\"", {6}},
      {R"(["null", "string"])", {0, 4}},
      {R"(["integer", "number"])", {2, 3}}};
  for (const auto& [type, numbers] : types) {
    std::vector<std::string> accepted;
    std::vector<std::string> rejected = texts;
    for (const std::size_t number : numbers) {
      accepted.push_back(texts[number]);
      std::erase(rejected, texts[number]);
    }
    ExpectTexts("{\"type\": " + type + "}", accepted, rejected);
  }
}

TEST(SchemaTypesTest, NumbersHaveLimitedDigits) {
  ExpectTexts(R"({"type": "integer"})", {"0", "-1", "9999999999999999"},
              {"10000000000000000", "1.0", "1e2", "00"});
  ExpectTexts(R"({"type": "number"})", {"0.1", "-1.5e-10", "1E+5"},
              {"0.12345678901234567", "1e100", "1.e5"});
}

TEST(SchemaTypesTest, ConstantsAreCompactAndFilteredByTheOtherKeywords) {
  ExpectTexts(R"({"const": {"a": [1, "x\n\"", null]}})", {R"({"a":[1,"x\n\"",null]})"},
              {R"({"a": [1,"x\n\"",null]})", "{}"});
  ExpectTexts(R"({"enum": ["a", 1, null, 2.5, "b\\"], "type": ["string", "number"]})",
              {"\"a\"", "1", "2.5", R"("b\\")"}, {"null", "\"b\"", "2"});
  ExpectTexts(R"({"enum": [1, 2, 3, 4], "minimum": 2, "const": 3})", {"3"}, {"1", "2", "4"});
  ExpectTexts(R"({"enum": ["a", "bb", "ccc"], "minLength": 2, "pattern": "^b|c"})",
              {"\"bb\"", "\"ccc\""}, {"\"a\""});
  ExpectTexts(R"({"enum": [[1], [1, 2], {"a": 1}, {"b": 1}], "minItems": 2, "required": ["b"]})",
              {"[1,2]", R"({"b":1})"}, {"[1]", R"({"a":1})"});
  ExpectTexts(R"({"enum": [true, 1, 0], "type": "integer"})", {"1", "0"}, {"true"});
}

TEST(SchemaTypesTest, KeywordsOfOneKindImplyTheirType) {
  ExpectTexts(R"({"minLength": 2})", {"\"ab\""}, {"\"a\"", "5", "null"});
  ExpectTexts(R"({"minLength": 2, "minimum": 3})", {"\"ab\"", "3"}, {"\"a\"", "2", "null"});
  ExpectTexts(R"({"type": ["string", "null"], "minLength": 2})", {"\"ab\"", "null"}, {"\"a\""});
  ExpectTexts(R"({"allOf": [{"minLength": 2}, {"maximum": 3}]})", {"\"ab\"", "3"}, {"4", "null"});
}

TEST(SchemaTypesTest, ASchemaWithoutAValidTextIsAnError) {
  const char* const kNothing = "#: no finite text satisfies the schema";
  for (const char* schema :
       {"false", R"({"enum": []})", R"({"type": []})", R"({"type": "string", "const": 1})",
        R"({"allOf": [{"type": "string"}, {"type": "null"}]})",
        R"({"minLength": 3, "maxLength": 2})",
        R"({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2})",
        R"({"required": ["a"], "properties": {"a": false}})",
        R"({"required": ["a"], "properties": {"a": {"$ref": "#"}}})",
        R"({"items": {"$ref": "#"}, "minItems": 1})", R"({"not": {}})",
        R"({"pattern": "^a$", "minLength": 2})"}) {
    ExpectError(schema, Code::kInvalidArgument, kNothing);
  }
}

}  // namespace
}  // namespace kvd::test
