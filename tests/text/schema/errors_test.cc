// Keywords that are refused, and values that JSON Schema forbids.
#include <gtest/gtest.h>

#include <limits>

#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

TEST(SchemaErrorsTest, KeywordsThatNoGrammarExpressesAreErrorsByPath) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("dependentRequired": {"a": ["b"]})", "dependentRequired"},
      {R"("dependentSchemas": {"a": {}})", "dependentSchemas"},
      {R"("dependencies": {"a": ["b"]})", "dependencies"},
      {R"("if": {}, "then": {})", "if"},
      {R"("contains": {"const": 1})", "contains"},
      {R"("contains": {}, "minContains": 0, "maxContains": 2)", "contains"},
      {R"("$dynamicRef": "#a")", "$dynamicRef"},
      {R"("$recursiveRef": "#")", "$recursiveRef"},
      {R"("unevaluatedProperties": false, "allOf": [{}])", "unevaluatedProperties"},
      {R"("unevaluatedItems": false, "anyOf": [{}])", "unevaluatedItems"}};
  for (const auto& [keywords, name] : kCases) {
    ExpectError(std::string(R"({"items": {)") + keywords + "}}", Code::kUnsupported,
                std::string("#/items/") + name + ": ");
  }
}

TEST(SchemaErrorsTest, TheSameKeywordsAreAcceptedWhereTheyDemandNothing) {
  ExpectTexts(
      R"({"type": "null", "dependentRequired": {}, "dependentSchemas": {}, "if": {"const": 1}})",
      {"null"}, {"1"});
  ExpectTexts(R"({"type": "array", "contains": {"const": 1}, "minContains": 0})", {"[]", "[2]"},
              {});
  ExpectTexts(
      R"({"type": "object", "properties": {"a": {"const": 1}}, "unevaluatedProperties": {"const": 2}})",
      {R"({"a":1,"b":2})"}, {R"({"b":1})"});
  ExpectTexts(R"({"prefixItems": [{"const": 1}], "unevaluatedItems": {"const": 2}})", {"[1,2]"},
              {"[1,1]"});
  ExpectTexts(R"({"allOf": [{"type": "object"}], "unevaluatedProperties": true})", {"{}"}, {"1"});
}

TEST(SchemaErrorsTest, ValuesThatJsonSchemaForbidsAreErrorsByPath) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"("type": "kaboom")", "type: \"kaboom\" is not a type"},
      {R"("type": 123)", "type: 123 is not a type"},
      {R"("type": ["null", {}])", "type: {} is not a type"},
      {R"("enum": 5)", "enum: a list is needed"},
      {R"("allOf": {})", "allOf: a list of schemas is needed"},
      {R"("anyOf": [])", "anyOf: a list of schemas is needed"},
      {R"("oneOf": 1)", "oneOf: a list of schemas is needed"},
      {R"("minLength": -1)", "minLength: a whole number"},
      {R"("maxLength": 1.5)", "maxLength: a whole number"},
      {R"("minItems": "1")", "minItems: a whole number"},
      {R"("maxItems": 1e300)", "maxItems: a whole number"},
      {R"("minProperties": null)", "minProperties: a whole number"},
      {R"("maxProperties": true)", "maxProperties: a whole number"},
      {R"("contains": {}, "minContains": "x")", "minContains: a whole number"},
      {R"("minimum": "1")", "minimum: a number is needed"},
      {R"("maximum": null)", "maximum: a number is needed"},
      {R"("exclusiveMinimum": true)", "exclusiveMinimum: a number is needed"},
      {R"("exclusiveMaximum": true)", "exclusiveMaximum: a number is needed"},
      {R"("multipleOf": 0)", "multipleOf: a number above 0"},
      {R"("multipleOf": "1")", "multipleOf: a number is needed"},
      {R"("pattern": 5)", "pattern: a text is needed"},
      {R"("prefixItems": {})", "prefixItems: a list of schemas is needed"},
      {R"("uniqueItems": 1)", "uniqueItems: a boolean is needed"},
      {R"("required": "a")", "required: a list of names is needed"},
      {R"("required": [1])", "required: a list of names is needed"},
      {R"("properties": [])", "properties: an object is needed"},
      {R"("patternProperties": [])", "patternProperties: an object is needed"},
      {R"("patternProperties": {"(": {}})", "patternProperties/(: \"(\" without"},
      {R"("additionalProperties": 1)", "additionalProperties: a schema is an object or a boolean"},
      {R"("items": 5)", "items: a schema is an object or a boolean"},
      {R"("properties": {"b": null})", "properties/b: a schema is an object or a boolean"},
      {R"("not": [])", "not: a schema is an object or a boolean"}};
  for (const auto& [keywords, message] : kCases) {
    ExpectError(std::string(R"({"properties": {"a/b": {)") + keywords + "}}}",
                Code::kInvalidArgument, std::string("#/properties/a~1b/") + message);
  }
}

TEST(SchemaErrorsTest, DocumentsAreChecked) {
  ExpectError("{", Code::kInvalidArgument, "");
  ExpectError("[]", Code::kInvalidArgument, "#: a schema is an object or a boolean");
  SchemaGrammarOptions options;
  options.schema_bytes_max = 10;
  EXPECT_EQ(SchemaGrammar(R"({"type": "null"})", options).error().code, Code::kUnsupported);
  const auto refuse = [](const Value& schema, std::string_view message) {
    const auto grammar = SchemaGrammar(schema);
    ASSERT_FALSE(grammar.has_value());
    EXPECT_EQ(grammar.error().code, Code::kInvalidArgument);
    EXPECT_EQ(grammar.error().message, message);
  };
  const auto with = [](Value value) {
    Dict dict;
    dict.Set("const", std::move(value));
    return Value::Of(std::move(dict));
  };
  refuse(with(Value::String("\xff")), "#/const: the text is not valid UTF-8");
  refuse(with(Value::Float(std::numeric_limits<double>::infinity())),
         "#/const: the number is not finite");
  refuse(with(Value()), "#/const: the value is of a kind that JSON lacks");
  refuse(with(Value::List({Value::Tuple({})})),
         "#/const/0: the value is of a kind that JSON lacks");
  Dict dict;
  dict.Set(Value::Int(1), Value::None());
  refuse(Value::Of(std::move(dict)), "#: a key is not a text of valid UTF-8");
  Value deep = Value::None();
  for (int i = 0; i < 130; ++i) deep = Value::List({deep});
  refuse(with(deep), "#: 131 levels, at most 128");
  options = {};
  options.node_count_max = 2;
  EXPECT_EQ(
      SchemaGrammar(with(Value::List({Value::Int(1), Value::Int(2)})), options).error().message,
      "#: 5 values, at most 2");
}

TEST(SchemaErrorsTest, GrammarsAreLimited) {
  SchemaGrammarOptions options;
  options.rules_max = 3;
  const char* const kSchema = R"({"properties": {"a": {"minimum": 1}, "b": {"maximum": 2}}})";
  EXPECT_EQ(SchemaGrammar(kSchema, options).error().message, "#: a grammar of more than 3 rules");
  options = {};
  options.grammar_bytes_max = 50;
  EXPECT_EQ(SchemaGrammar(kSchema, options).error().message, "a grammar of more than 50 bytes");
  options = {};
  options.root = "a b";
  EXPECT_EQ(SchemaGrammar("true", options).error().code, Code::kInvalidArgument);
  options.root = "string";
  EXPECT_EQ(SchemaGrammar("true", options).error().code, Code::kExists);
  std::string patterns = R"({"patternProperties": {)";
  for (int i = 0; i < 5; ++i)
    patterns += std::string(i > 0 ? "," : "") + "\"" + std::to_string(i) + "\": true";
  ExpectError(patterns + "}}", Code::kUnsupported, "#/patternProperties: more than 4 patterns");
  std::string many = R"({"maxProperties": 70, "properties": {)";
  for (int i = 0; i < 80; ++i)
    many += std::string(i > 0 ? "," : "") + "\"" + std::to_string(i) + "\": true";
  ExpectError(many + "}}", Code::kUnsupported,
              "#: minProperties or maxProperties with 80 properties");
}

}  // namespace
}  // namespace kvd::test
