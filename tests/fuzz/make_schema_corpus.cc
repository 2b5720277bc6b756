// Writes seeds for schema_fuzz: schemas that together have every keyword.
#include <span>
#include <string>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::schema_corpus {
namespace {

constexpr const char* kSchemas[] = {
    R"({"type":"object","properties":{"a":{"type":"integer","minimum":-3,"maximum":250},"b":{"type":"string"}},"required":["a"],"additionalProperties":{"type":"null"}})",
    R"({"type":"object","patternProperties":{"^x":{"type":"number"}},"propertyNames":{"maxLength":3},"minProperties":1,"maxProperties":2})",
    R"({"type":"array","prefixItems":[{"const":1},true],"items":{"type":"boolean"},"minItems":1,"maxItems":4,"uniqueItems":false})",
    R"x({"type":"string","pattern":"^(a|[b-d\\d]{2,3}?)+\\.(?:x)$","minLength":2,"maxLength":9})x",
    R"({"type":["string","null"],"format":"date-time"})",
    R"({"enum":["a",1,null,{"b":[2.5]}],"not":{"const":1}})",
    R"({"oneOf":[{"properties":{"k":{"const":"x"}},"required":["k"]},{"properties":{"k":{"const":"y"}},"required":["k"]}]})",
    R"({"anyOf":[{"$ref":"#/$defs/n"},{"type":"string"}],"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}})",
    R"({"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"type":"integer"},"b":{}},"required":["b"]}]})",
    R"({"type":"number","exclusiveMinimum":0.5,"exclusiveMaximum":12.25})",
    R"({"type":"integer","multipleOf":4,"minimum":0})",
    R"({"type":"number","multipleOf":0.01})",
    R"({"properties":{"a":{"dependentRequired":{"a":["b"]}},"b":{"if":{},"then":{}},"c":{"contains":{}}}})",
    R"({"$id":"u","$ref":"u#/$defs/a~1b%20","unevaluatedProperties":true,"$defs":{"a/b ":{"type":"null"}}})",
    R"({"items":[{"type":"null"}],"additionalItems":false})"};

}  // namespace

int Make(const std::string& folder) {
  int number = 0;
  for (const char* schema : kSchemas) {
    const std::string input = schema;
    kvd::test::WriteSeed(folder, "schema" + std::to_string(number++),
                         std::as_bytes(std::span(input)));
  }
  return 0;
}

}  // namespace kvd::schema_corpus
