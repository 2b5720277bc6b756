// Ranges of numbers.
#include <gtest/gtest.h>

#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

TEST(SchemaNumbersTest, IntegerRangesAreExact) {
  struct Range {
    int min;
    int max;
  };
  for (const auto& [min, max] : std::vector<Range>{{0, 23},
                                                   {15, 300},
                                                   {5, 30},
                                                   {-123, 42},
                                                   {-10, 10},
                                                   {1, 9},
                                                   {10, 99},
                                                   {-7, -3},
                                                   {-1999, -1000},
                                                   {99, 101},
                                                   {0, 0},
                                                   {-1, 0},
                                                   {7, 1234}}) {
    std::vector<std::string> accepted;
    std::vector<std::string> rejected = {"-0", "00", "1.0", ""};
    for (int number = -2100; number <= 1400; ++number)
      (number >= min && number <= max ? accepted : rejected).push_back(std::to_string(number));
    ExpectTexts(R"({"type": "integer", "minimum": )" + std::to_string(min) + R"(, "maximum": )" +
                    std::to_string(max) + "}",
                accepted, rejected);
    ExpectTexts(R"({"type": "integer", "exclusiveMinimum": )" + std::to_string(min - 1) +
                    R"(, "exclusiveMaximum": )" + std::to_string(max + 1) + "}",
                accepted, rejected);
    ExpectTexts(R"({"type": "integer", "minimum": )" + std::to_string(min) + R"(.0, "maximum": )" +
                    std::to_string(max) + (max < 0 ? ".0}" : ".75}"),
                accepted, rejected);
  }
}

TEST(SchemaNumbersTest, OpenIntegerRangesEndAtSixteenDigits) {
  ExpectTexts(R"({"type": "integer", "minimum": 25})", {"25", "99", "100", "9999999999999999"},
              {"24", "-30", "3", "10000000000000000", "025"});
  ExpectTexts(R"({"type": "integer", "maximum": -5})", {"-5", "-10", "-9999999999999999"},
              {"-4", "0", "5"});
  ExpectTexts(R"({"type": "integer", "minimum": 100000000000000000})",
              {"100000000000000000", "999999999999999999"}, {"99999999999999999"});
  ExpectTexts(
      R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})",
      {"-9223372036854775808", "9223372036854775807", "0"},
      {"-9223372036854775809", "9223372036854775808"});
}

TEST(SchemaNumbersTest, DecimalRangesAreExact) {
  ExpectTexts(R"({"type": "number", "minimum": 0.25, "maximum": 12.5})",
              {"0.25", "0.250", "0.3", "1", "1.0", "9.99", "12", "12.5", "12.4999", "12.50"},
              {"0.2", "0.24999", "0", "12.51", "12.6", "13", "-1", "1e0", "00.3", "1."});
  ExpectTexts(R"({"type": "number", "exclusiveMinimum": 0})",
              {"0.0000000000000001", "1", "9999999999999999.5"}, {"0", "0.0", "-1", "-0.5"});
  ExpectTexts(R"({"type": "number", "exclusiveMaximum": 1, "minimum": -1})",
              {"0.99", "-1", "-1.0", "-0.5", "0", "0.9999999999999999"},
              {"1", "1.0", "-1.1", "2", "1.0000000000000001"});
  ExpectTexts(R"({"type": "number", "maximum": -2.5})", {"-2.5", "-3", "-2.51"},
              {"-2.4", "2.5", "0"});
  ExpectTexts(R"({"type": "number", "minimum": 3.14, "maximum": 3.15})",
              {"3.14", "3.141", "3.15", "3.150"}, {"3.1", "3.151", "3.139", "3"});
  ExpectTexts(R"({"minimum": 1e-3, "maximum": 1e300})", {"0.001", "5", "9999999999999999"}, {"0"});
}

TEST(SchemaNumbersTest, MultiplesOfWholeNumbersAndPowersOfTenAreEnforced) {
  ExpectTexts(R"({"type": "integer", "minimum": -7, "maximum": 20, "multipleOf": 5})",
              {"-5", "0", "5", "20"}, {"-10", "1", "25"});
  ExpectTexts(R"({"type": "integer", "multipleOf": 4})", {"0", "4", "-8", "12", "100", "1016"},
              {"2", "10", "102", "04"});
  ExpectTexts(R"({"type": "integer", "minimum": 0, "multipleOf": 10})", {"0", "10", "120"},
              {"5", "-10"});
  ExpectTexts(R"({"type": "number", "multipleOf": 0.01})", {"1", "1.5", "-3.25"}, {"1.234", "1e1"});
  ExpectTexts(R"({"type": "number", "multipleOf": 0.1, "exclusiveMinimum": 0, "maximum": 1})",
              {"0.1", "1", "1.0"}, {"0", "0.0", "1.1", "0.05"});
  ExpectTexts(R"({"type": "number", "multipleOf": 1})", {"1", "-5"}, {"1.5"});
  ExpectTexts(
      R"({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer", "minimum": 1, "maximum": 30})",
      {"12", "24"}, {"4", "6", "18"});
  ExpectError(R"({"type": "integer", "multipleOf": 7})", Code::kUnsupported, "#/multipleOf: 7");
  ExpectError(R"({"type": "integer", "multipleOf": 3, "minimum": 0, "maximum": 999999})",
              Code::kUnsupported, "#/multipleOf: more than 1024");
  ExpectError(R"({"type": "number", "multipleOf": 0.3})", Code::kUnsupported,
              "#/multipleOf: a fraction");
  ExpectError(R"({"type": "integer", "multipleOf": 1.5})", Code::kUnsupported,
              "#/multipleOf: a fraction");
  ExpectError(R"({"type": "integer", "multipleOf": 1e16})", Code::kUnsupported,
              "#/multipleOf: more than 1e15");
  ExpectError(R"({"allOf": [{"multipleOf": 99999999999999}, {"multipleOf": 99999999999998}]})",
              Code::kUnsupported, "#/allOf/0/multipleOf: the least common multiple");
}

}  // namespace
}  // namespace kvd::test
