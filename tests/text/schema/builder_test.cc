// SchemaGrammarBuilder, and the form of the grammar.
#include <gtest/gtest.h>

#include "tests/text/schema/schema_case.h"
#include "text/json.h"

namespace kvd::test {
namespace {

Value Parsed(std::string_view json) { return ParseJson(json).value(); }

TEST(SchemaBuilderTest, CombinesSchemasAndRulesOfTheCaller) {
  SchemaGrammarBuilder builder;
  const auto first =
      builder.AddSchema("get weather", Parsed(R"({"properties": {"city": {"minLength": 1}}})"));
  const auto second = builder.AddSchema("get weather", Parsed(R"({"type": "integer"})"));
  const auto third = builder.AddSchema("string", Parsed(R"({"const": 1})"));
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(*first, "get-weather");
  EXPECT_EQ(*second, "get-weather-2");
  EXPECT_NE(*third, "string");
  ASSERT_TRUE(
      builder.AddRule("root", "\"call \" (" + *first + " | " + *second + " | " + *third + ")"));
  const auto grammar = builder.Finish();
  ASSERT_TRUE(grammar.has_value());
  auto checker = GbnfChecker::Create(*grammar);
  ASSERT_TRUE(checker.has_value()) << *grammar << checker.error().message;
  EXPECT_TRUE(checker->Accepts("root", R"(call {"city":"x"})"));
  EXPECT_TRUE(checker->Accepts("root", "call 12"));
  EXPECT_FALSE(checker->Accepts("root", R"(call {"city":""})"));
}

TEST(SchemaBuilderTest, AFailedSchemaLeavesTheBuilderUnchanged) {
  SchemaGrammarBuilder builder;
  ASSERT_TRUE(builder.AddSchema("a", Parsed(R"({"minLength": 2})")));
  const std::string before = builder.Finish().value();
  EXPECT_FALSE(builder.AddSchema(
      "b", Parsed(R"x({"properties": {"x": {"minimum": 1}, "y": {"pattern": "(?=a)"}}})x")));
  EXPECT_EQ(builder.Finish().value(), before);
  EXPECT_EQ(builder.AddSchema("b", Parsed("true")).value(), "b");
}

TEST(SchemaBuilderTest, RulesOfTheCallerAreChecked) {
  SchemaGrammarBuilder builder;
  EXPECT_EQ(builder.AddRule("a_b", "x").error().code, Code::kInvalidArgument);
  EXPECT_EQ(builder.AddRule("", "x").error().code, Code::kInvalidArgument);
  EXPECT_EQ(builder.AddRule("a", "").error().code, Code::kInvalidArgument);
  EXPECT_TRUE(builder.AddRule("a", "\"x\""));
  EXPECT_EQ(builder.AddRule("a", "\"y\"").error().code, Code::kExists);
  EXPECT_EQ(builder.AddRule("value", "\"y\"").error().code, Code::kExists);
}

TEST(SchemaBuilderTest, EqualRulesAreWrittenOnce) {
  const auto grammar =
      SchemaGrammar(R"({"properties": {"a": {"type": "integer", "minimum": 3, "title": "x"},
      "b": {"type": "integer", "minimum": 3}, "c": {"type": "array", "items": {"type": "integer", "minimum": 3}}},
      "required": ["a", "b", "c"]})");
  ASSERT_TRUE(grammar.has_value());
  std::size_t count = 0;
  for (std::size_t at = grammar->find("[3-9]"); at != std::string::npos;
       at = grammar->find("[3-9]", at + 1))
    ++count;
  EXPECT_EQ(count, 1u) << *grammar;
}

TEST(SchemaBuilderTest, AFormatIsOneRuleAlsoAfterAFailedSchema) {
  SchemaGrammarBuilder builder;
  EXPECT_FALSE(builder.AddSchema(
      "a", Parsed(R"({"properties": {"x": {"format": "date"}, "y": {"if": {}, "then": {}}}})")));
  ASSERT_TRUE(builder.AddSchema("a", Parsed(R"({"format": "date"})")));
  ASSERT_TRUE(builder.AddSchema("b", Parsed(R"({"items": {"format": "date"}})")));
  const std::string grammar = builder.Finish().value();
  EXPECT_EQ(grammar.find("02-29"), grammar.rfind("02-29")) << grammar;
  auto checker = GbnfChecker::Create(grammar);
  ASSERT_TRUE(checker.has_value()) << grammar << checker.error().message;
  EXPECT_TRUE(checker->Accepts("b", R"(["2024-02-29"])"));
  EXPECT_FALSE(checker->Accepts("b", R"(["2023-02-29"])"));
}

TEST(SchemaBuilderTest, TheGrammarOfAnObjectIsPlain) {
  EXPECT_EQ(
      SchemaGrammar(
          R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})")
          .value(),
      "root ::= \"{\" space \"\\\"a\\\"\" space \":\" space boolean space \"}\"\n"
      "space ::= \" \"? | \"\\n\"{1,2} [ \\t]{0,20}\n"
      "boolean ::= \"true\" | \"false\"\n");
}

}  // namespace
}  // namespace kvd::test
