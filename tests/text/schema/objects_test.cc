// Objects.
#include <gtest/gtest.h>

#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

TEST(SchemaObjectsTest, PropertiesHaveTheOrderOfTheSchema) {
  const char* const kSchema = R"({"type": "object", "properties": {"a": {"type": "integer"},
      "b": {"type": "null"}, "c": {"type": "boolean"}, "d": {"const": 1}}, "required": ["b", "d"]})";
  ExpectTexts(kSchema,
              {R"({"a":1,"b":null,"c":true,"d":1})", R"({"b":null,"d":1})",
               R"({ "b" : null, "c": false,"d":1 })", R"({"a": 1, "b": null, "d": 1})",
               "{\n  \"b\": null,\n  \"d\": 1\n}"},
              {"{}", R"({"b":null})", R"({"d":1,"b":null})", R"({"b":null,"a":1,"d":1})",
               R"({"b":null,"d":1,"e":1})", R"({"b":null,"d":1,})", R"({,"b":null,"d":1})",
               R"({"a":1 "b":null,"d":1})"});
}

TEST(SchemaObjectsTest, OptionalPropertiesMayAllBeAbsent) {
  ExpectTexts(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})",
              {"{}", "{ }", R"({"a":1})", R"({"b":2})", R"({"c":3})", R"({"a":1,"c":3})",
               R"({"a":1,"b":2,"c":3})"},
              {R"({"b":2,"a":1})", R"({"a":1,"a":1})", R"({"d":1})", "{,}"});
  ExpectTexts(R"({"type": "object", "properties": {}})", {"{}"}, {R"({"a":1})"});
  ExpectTexts(R"({"type": "object", "additionalProperties": false})", {"{}"}, {R"({"a":1})"});
}

TEST(SchemaObjectsTest, AdditionalPropertiesHaveOtherNames) {
  ExpectTexts(R"({"properties": {"and": {"type": "integer"}, "also": {"type": "integer"}},
               "required": ["and"], "additionalProperties": {"type": "string"}})",
              {R"({"and":1})", R"({"and":1,"also":2})", R"({"and":1,"x":"y","":"z"})",
               R"({"and":1,"an":"","andy":"","al":"","é\n":""})"},
              {R"({"and":1,"also":"x"})", R"({"and":1,"x":1})", R"({"and":1,"and":"x"})",
               R"({"and":1,"\u0061lso":"x"})", R"({"x":"y"})"});
  ExpectTexts(
      R"({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}})",
      {"{}", R"({"a":[1,2],"b":[]})"}, {R"({"a":1})"});
  ExpectTexts(R"({"properties": {"a": {"const": 1}}, "additionalProperties": true})",
              {R"({"b":[null],"c":{}})", R"({"a":1,"aa":2})"}, {R"({"a":2})"});
  ExpectTexts(R"({"type": "object"})", {R"({"a":1})", "{}"}, {"[]"});
}

TEST(SchemaObjectsTest, RequiredPropertiesWithoutSchemaAreAnyValue) {
  ExpectTexts(R"({"type": "object", "required": ["x"]})", {R"({"x":[1]})", R"({"x":1,"y":2})"},
              {"{}", R"({"y":1})"});
  ExpectTexts(R"({"properties": {"a": {"const": 1}}, "required": ["x"]})",
              {R"({"x":null})", R"({"a":1,"x":2})"}, {R"({"a":1})", R"({"x":1,"y":2})"});
}

TEST(SchemaObjectsTest, CountsOfPropertiesAreEnforced) {
  const std::string properties =
      R"("properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}})";
  ExpectTexts("{" + properties + R"(, "minProperties": 1})", {R"({"a":1})", R"({"b":2,"c":3})"},
              {"{}"});
  ExpectTexts("{" + properties + R"(, "minProperties": 2, "maxProperties": 2})",
              {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"},
              {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"});
  ExpectTexts("{" + properties + R"(, "maxProperties": 1, "required": ["b"]})", {R"({"b":2})"},
              {R"({"a":1,"b":2})", "{}"});
  ExpectTexts(R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
              {R"({"x":1})", R"({"x":1,"y":2})"}, {"{}", R"({"x":1,"y":2,"z":3})"});
  ExpectTexts("{" + properties + R"(, "minProperties": 2, "additionalProperties": true})",
              {R"({"a":1,"b":2})", R"({"a":1,"z":0})", R"({"a":1,"b":2,"y":1,"z":0})"},
              {R"({"a":1})", R"({"y":1,"y":2})", R"({"z":1})"});
  ExpectTexts(R"({"type": "object", "maxProperties": 0})", {"{}", "{  }"}, {R"({"a":1})"});
  ExpectError(R"({"type": "object", "minProperties": 2})", Code::kUnsupported,
              "#/minProperties: more than one property");
}

TEST(SchemaObjectsTest, PatternPropertiesAndPropertyNamesAreEnforced) {
  ExpectTexts(
      R"({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": false})",
      {"{}", R"({"x-a":1,"x-":2})"}, {R"({"x-a":"s"})", R"({"y":1})"});
  ExpectTexts(R"({"patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}},
               "additionalProperties": {"type": "null"}})",
              {R"({"xa":1,"by":5,"xy":7,"z":null})"},
              {R"({"xy":4})", R"({"by":4})", R"({"z":1})", R"({"xa":null})"});
  ExpectTexts(
      R"({"properties": {"xa": {"minimum": 3}}, "patternProperties": {"^x": {"type": "integer"}}})",
      {R"({"xa":3})", R"({"xb":1})"}, {R"({"xa":2})", R"({"xa":3.5})", R"({"b":1})"});
  ExpectTexts(R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}})",
              {R"({"abc":1})", "{}"}, {R"({"abcd":1})", R"({"A":1})"});
  ExpectTexts(
      R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}})",
      {R"({"a":1,"b":2})", R"({"b":1})"}, {R"({"c":1})", R"({"a":"x"})"});
  ExpectTexts(R"({"properties": {"a": true, "bb": true}, "propertyNames": {"maxLength": 1}})",
              {R"({"a":1})"}, {R"({"bb":1})"});
}

TEST(SchemaObjectsTest, NamesAreEscaped) {
  ExpectTexts(
      R"({"properties": {"a\"b\\c\né": {"const": "\u0000\u001f"}}, "required": ["a\"b\\c\né"]})",
      {R"({"a\"b\\c\né":"\u0000\u001f"})"}, {R"({"a":""})"});
  ExpectTexts(R"({"properties": {"": {"const": 1}}, "additionalProperties": {"const": 2}})",
              {R"({"":1,"x":2})"}, {R"({"":2})"});
}

TEST(SchemaObjectsTest, RecursiveSchemasBecomeRecursiveRules) {
  ExpectTexts(
      R"({"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}},
               "required": ["value"]})",
      {R"({"value":1})", R"({"value":1,"next":{"value":2,"next":{"value":3}}})"},
      {R"({"value":1,"next":null})", R"({"next":{"value":1}})"});
  ExpectTexts(
      R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}})",
      {"[]", "[[],[[]]]"}, {"[1]"});
}

}  // namespace
}  // namespace kvd::test
