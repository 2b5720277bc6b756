// $ref, allOf, anyOf, oneOf and not.
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

TEST(SchemaCombinedTest, ReferencesReachAnyPartOfTheDocument) {
  ExpectTexts(R"({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "number"}]},
               "b": {"$ref": "#/properties/a/anyOf/0"}}})",
              {R"({"a":1,"b":"x"})"}, {R"({"b":1})"});
  ExpectTexts(R"({"$ref": "#/$defs/a~1b~0c%20d", "$defs": {"a/b~c d": {"const": 1}}})", {"1"},
              {"2"});
  ExpectTexts(R"({"$id": "https://x.y/z", "$ref": "https://x.y/z#/definitions/a",
               "definitions": {"a": {"type": "null"}}})",
              {"null"}, {"1"});
  ExpectTexts(
      R"({"$ref": "#/$defs/a", "minimum": 3, "$defs": {"a": {"type": "integer", "maximum": 5}}})",
      {"3", "5"}, {"2", "6", "3.5"});
  ExpectError(R"({"$ref": "https://x.y/z"})", Code::kUnsupported,
              "#/$ref: \"https://x.y/z\" refers to another document");
  ExpectError(R"({"$ref": "#/a"})", Code::kInvalidArgument, "#/$ref: \"#/a\" refers to no part");
  ExpectError(R"({"$ref": "#/$defs/1", "$defs": [true]})", Code::kInvalidArgument, "#/$ref: ");
  ExpectError(R"({"$ref": "#a"})", Code::kUnsupported, "#/$ref: \"#a\" refers to an anchor");
  ExpectError(R"({"$ref": "#/%4"})", Code::kInvalidArgument, "#/$ref: \"%\" without");
  ExpectError(R"({"$ref": 1})", Code::kInvalidArgument, "#/$ref: a text is needed");
  ExpectError(R"({"$ref": "#"})", Code::kUnsupported, "#: the schema refers to itself");
  ExpectError(R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})", Code::kUnsupported,
              "#: the schema refers");
  ExpectError(R"({"items": {"$id": "b", "properties": {"a": {"$ref": "#"}}}})", Code::kUnsupported,
              "#/items/properties/a/$ref: a reference inside a part with an \"$id\"");
}

TEST(SchemaCombinedTest, AllOfIntersectsObjectsTypesAndValues) {
  ExpectTexts(
      R"({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {"const": 2}}, "required": ["b"]}],
               "$defs": {"a": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}})",
      {R"({"a":1,"b":2})"}, {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2,"c":3})"});
  ExpectTexts(
      R"({"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"type": "integer"}}}],
               "required": ["a"]})",
      {R"({"a":3})"}, {R"({"a":2})", R"({"a":3.5})", "{}"});
  ExpectTexts(
      R"({"allOf": [{"properties": {"a": {"const": 1}}, "additionalProperties": {"type": "integer"}},
               {"properties": {"b": {"minimum": 5}}}]})",
      {R"({"a":1,"b":5})", R"({"b":6,"x":1})"}, {R"({"b":5.5})", R"({"b":4})", R"({"x":"s"})"});
  ExpectTexts(
      R"({"allOf": [{"type": ["string", "null", "integer"]}, {"type": ["integer", "null"]}]})",
      {"null", "1"}, {"\"a\""});
  ExpectTexts(R"({"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["b", "c", "d"]}]})",
              {"\"b\"", "\"c\""}, {"\"a\"", "\"d\""});
  ExpectTexts(
      R"({"allOf": [{"prefixItems": [{"minimum": 1}]}, {"items": {"type": "integer"}, "maxItems": 2}]})",
      {"[]", "[1]", "[1,0]"}, {"[0]", "[1.5]", "[1,2,3]"});
  ExpectTexts(
      R"({"allOf": [{"properties": {"a": {"type": "string"}}, "additionalProperties": false},
               {"properties": {"b": {"type": "string"}}}]})",
      {"{}", R"({"a":"x"})"}, {R"({"b":"x"})"});
}

TEST(SchemaCombinedTest, AnyOfIsAUnionWithTheSiblingKeywords) {
  ExpectTexts(R"({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 5}]})",
              {"\"a\"", "5"}, {"4", "null"});
  ExpectTexts(R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}},
               "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
              {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {"{}", R"({"c":1})"});
  ExpectTexts(R"({"type": "integer", "anyOf": [{"maximum": 3}, {"minimum": 7}]})", {"3", "7"},
              {"4", "6", "3.5", "null"});
  ExpectTexts(R"({"anyOf": [{"type": "null"}, false, {"type": "array", "items": {"$ref": "#"}}]})",
              {"null", "[null,[]]"}, {"1", "[1]"});
}

TEST(SchemaCombinedTest, AnyOfWithSixRepeatedTypesIsNotAnyValue) {
  ExpectTexts(R"({"anyOf": [{"type": ["null", "boolean"]}, {"type": "boolean"},
               {"type": ["string", "array"]}, {"type": "null"}]})",
              {"null", "true", "[]"}, {"{}", "1"});
  ExpectTexts(R"({"anyOf": [{"type": ["null", "boolean", "number", "string", "array", "object"]},
               {"type": "null"}]})",
              {"{}", "1"}, {});
}

TEST(SchemaCombinedTest, OneOfAcceptsWhatExactlyOneBranchAccepts) {
  ExpectTexts(R"({"oneOf": [{"type": "string"}, {"type": "null"}]})", {"\"a\"", "null"}, {"1"});
  ExpectTexts(R"({"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})", {"1", "3"}, {"2"});
  ExpectTexts(R"({"oneOf": [
               {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
               {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}]})",
              {R"({"kind":"a","x":1})", R"({"kind":"b"})"}, {R"({"kind":"c"})", R"({"kind":"a"})"});
  ExpectTexts(R"({"oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
               {"properties": {"b": {"const": 2}}, "required": ["b"]}]})",
              {R"({"a":1})", R"({"b":2})"}, {R"({"a":1,"b":2})", "{}"});
  ExpectTexts(R"({"type": "integer", "oneOf": [{"maximum": 3}, {"minimum": 4}]})", {"3", "4"},
              {"3.5"});
  ExpectTexts(
      R"({"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]})",
      {"\"a\"", "\"bx\""}, {"\"c\""});
  ExpectTexts(R"({"oneOf": [{"type": "array", "maxItems": 1}, {"type": "array", "minItems": 2}]})",
              {"[]", "[1,2]"}, {"1"});
  ExpectTexts(R"({"oneOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1},
               {"type": "array", "items": {"type": "number"}, "minItems": 1}]})",
              {"[\"a\"]", "[1]"}, {"[]", "[\"a\",1]"});
  ExpectTexts(R"({"oneOf": [{"const": "x"}, {"type": "string", "minLength": 2}]})",
              {"\"x\"", "\"xy\""}, {"\"y\""});
}

TEST(SchemaCombinedTest, OneOfWithBranchesThatMayOverlapIsAnError) {
  const auto expect = [](const std::string& branches) {
    ExpectError(R"({"oneOf": [)" + branches + "]}", Code::kUnsupported,
                "#/oneOf/1: values that this");
  };
  expect(R"({"type": "integer"}, {"type": "number"})");
  expect(R"({"type": "string"}, {"type": "string"})");
  expect(R"({"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]})");
  expect(R"({"pattern": "a"}, {"pattern": "b"})");
  expect(
      R"({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "null"}})");
  expect(R"({"type": "string", "format": "date"}, {"type": "string", "format": "time"})");
  expect(R"({"type": "boolean"}, {"enum": [true, null]})");
  // The branches are closed on their own, but the schema around them opens them.
  ExpectError(
      R"({"additionalProperties": true, "oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
               {"properties": {"b": {"const": 2}}, "required": ["b"]}]})",
      Code::kUnsupported, "#/oneOf/1: values");
}

TEST(SchemaCombinedTest, NotIsSupportedWhereItExcludesNothing) {
  ExpectTexts(R"({"type": "integer", "not": {"type": "string"}})", {"1"}, {"\"a\""});
  ExpectTexts(R"({"enum": [1, 2, 3], "not": {"enum": [2]}})", {"1", "3"}, {"2"});
  ExpectTexts(R"({"type": "null", "not": false})", {"null"}, {});
  ExpectTexts(R"({"properties": {"a": {"const": 1}}, "not": {"required": ["b"]}})", {R"({"a":1})"},
              {R"({"b":1})"});
  ExpectError(R"({"type": "string", "not": {"const": "a"}})", Code::kUnsupported, "#/not: values");
}

TEST(SchemaCombinedTest, CombinationsAreLimited) {
  std::string deep = R"({"type": "null"})";
  for (int i = 0; i < 60; ++i) deep = Concat(R"({"allOf": [)", deep, "]}");
  ExpectTexts(deep, {"null"}, {"1"});
  std::string references = R"({"$ref": "#/$defs/d0", "$defs": {"d99": true)";
  for (int i = 0; i < 99; ++i)
    references += Concat(", \"d", i, R"(": {"$ref": "#/$defs/d)", i + 1, "\"}");
  ExpectError(references + "}}", Code::kUnsupported, "#/$defs/d63: more than 64 references");
  std::string wide = R"({"allOf": [)";
  for (int i = 0; i < 12; ++i)
    wide += std::string(i > 0 ? "," : "") + R"({"anyOf": [{"minimum": 1}, {"maximum": 2}]})";
  ExpectError(wide + "]}", Code::kUnsupported, "#: more than 1024 alternatives");
}

}  // namespace
}  // namespace kvd::test
