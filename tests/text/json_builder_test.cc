#include "text/json_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

namespace kvd {
namespace {

TEST(JsonBuilderTest, MembersAndElementsKeepTheirOrder) {
  Json list = Json::Array();
  list.Add(1).Add(2.5).Add("three").Add(Json().Set("four", std::uint64_t{4}));
  EXPECT_EQ(Json().Set("b", true).Set("a", std::move(list)).Set("b", std::string("last")).Text(),
            R"({"b":"last","a":[1,2.5,"three",{"four":4}]})");
  EXPECT_EQ(Json({{"x", Value::None()}, {"y", Value::Int(-1)}}).Text(), R"({"x":null,"y":-1})");
  EXPECT_EQ(Json::Object().Text(), "{}");
  EXPECT_EQ(Json::Array().Text(), "[]");
}

TEST(JsonBuilderTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Json().Set("a", "z\xff\xc3").Text(), "{\"a\":\"z\xEF\xBF\xBD\xEF\xBF\xBD\"}");
}

TEST(JsonBuilderTest, ANumberThatIsNotFiniteIsNull) {
  EXPECT_EQ(Json().Set("a", INFINITY).Set("b", NAN).Text(), R"({"a":null,"b":null})");
}

TEST(JsonBuilderTest, ACountOfMoreThan63BitsIsAFloat) {
  EXPECT_EQ(Json().Set("a", UINT64_MAX).Text(), R"({"a":1.8446744073709552e+19})");
  EXPECT_EQ(JsonText(CountValue(std::uint64_t{1} << 62)), "4611686018427387904");
}

}  // namespace
}  // namespace kvd
