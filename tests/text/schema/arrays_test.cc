// Arrays.
#include <gtest/gtest.h>

#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

TEST(SchemaArraysTest, CountsOfItemsAreEnforced) {
  ExpectTexts(R"({"items": {"type": "boolean"}, "minItems": 2})",
              {"[true,false]", "[ true, false, true ]"}, {"[]", "[true]", "[true false]"});
  ExpectTexts(R"({"items": {"type": "boolean"}, "maxItems": 0})", {"[]", "[ ]"}, {"[true]"});
  ExpectTexts(R"({"items": {"type": "boolean"}, "minItems": 1, "maxItems": 3})",
              {"[true]", "[true,true,true]"}, {"[]", "[true,true,true,true]", "[1]"});
  ExpectTexts(R"({"type": "array", "maxItems": 1})", {"[]", "[{}]"}, {"[1,2]"});
  ExpectTexts(R"({"items": false})", {"[]"}, {"[1]"});
  ExpectTexts(R"({"type": "array"})", {"[]", "[1,\"a\"]"}, {"{}"});
  ExpectError(R"({"type": "array", "minItems": 2000000})", Code::kUnsupported,
              "#/minItems: more than 1048576");
}

TEST(SchemaArraysTest, PrefixItemsMayBeAbsentUnlessTheyAreRequired) {
  const std::string prefix = R"("prefixItems": [{"const": 1}, {"const": 2}, {"const": 3}])";
  ExpectTexts("{" + prefix + "}", {"[]", "[1]", "[1,2]", "[1,2,3]"}, {"[2]", "[1,2,3,4]", "[1,3]"});
  ExpectTexts("{" + prefix + R"(, "minItems": 2})", {"[1,2]", "[1,2,3]"}, {"[]", "[1]"});
  ExpectTexts("{" + prefix + R"(, "maxItems": 2})", {"[]", "[1,2]"}, {"[1,2,3]"});
  ExpectTexts("{" + prefix + R"(, "items": {"const": 4}, "maxItems": 5})", {"[1,2,3,4,4]", "[1]"},
              {"[1,2,4]", "[1,2,3,4,4,4]", "[1,2,3,5]"});
  ExpectTexts("{" + prefix + R"(, "items": {"const": 4}, "minItems": 4})", {"[1,2,3,4]"},
              {"[1,2,3]"});
  ExpectTexts("{" + prefix + R"(, "items": false, "minItems": 3})", {"[1,2,3]"}, {"[1,2,3,4]"});
  ExpectTexts("{" + prefix + R"(, "minItems": 4})", {"[1,2,3,null]"}, {"[1,2,3]"});
  ExpectTexts(R"({"prefixItems": [{"const": 1}, false]})", {"[]", "[1]"}, {"[1,2]"});
  ExpectTexts(R"({"items": [{"const": 1}], "additionalItems": {"const": 2}})", {"[1,2,2]", "[]"},
              {"[1,1]", "[2]"});
}

TEST(SchemaArraysTest, LongPrefixesNeedNoDeepGroups) {
  std::string schema = R"({"prefixItems": [)";
  std::string all = "[";
  for (int i = 0; i < 600; ++i) {
    schema += (i > 0 ? ",{\"const\":" : "{\"const\":") + std::to_string(i) + "}";
    all += (i > 0 ? "," : "") + std::to_string(i);
  }
  ExpectTexts(schema + "]}", {"[]", "[0,1]", all + "]"}, {all + ",600]", "[1]"});
}

TEST(SchemaArraysTest, UniqueItemsNeedAtMostOneItem) {
  ExpectTexts(R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[1]"}, {"[1,1]"});
  ExpectTexts(R"({"type": "array", "uniqueItems": false})", {"[1,1]"}, {});
  ExpectTexts(R"({"enum": [[1,1],[1,2]], "uniqueItems": true})", {"[1,2]"}, {"[1,1]"});
  ExpectError(R"({"properties": {"a": {"type": "array", "uniqueItems": true}}})",
              Code::kUnsupported, "#/properties/a/uniqueItems: ");
}

}  // namespace
}  // namespace kvd::test
