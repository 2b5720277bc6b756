#include "text/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvd {
namespace {

TEST(FloatTextTest, WritesTheReprOfPython) {
  EXPECT_EQ(FloatText(1), "1.0");
  EXPECT_EQ(FloatText(-0.0), "-0.0");
  EXPECT_EQ(FloatText(0.1), "0.1");
  EXPECT_EQ(FloatText(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(FloatText(123456789.125), "123456789.125");
  EXPECT_EQ(FloatText(0.0001), "0.0001");
  EXPECT_EQ(FloatText(0.00001), "1e-05");
  EXPECT_EQ(FloatText(1.5e-7), "1.5e-07");
  EXPECT_EQ(FloatText(1e15), "1000000000000000.0");
  EXPECT_EQ(FloatText(1e16), "1e+16");
  EXPECT_EQ(FloatText(1.25e100), "1.25e+100");
  EXPECT_EQ(FloatText(5e-324), "5e-324");
  EXPECT_EQ(FloatText(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(FloatText(INFINITY), "inf");
  EXPECT_EQ(FloatText(-INFINITY), "-inf");
  EXPECT_EQ(FloatText(NAN), "nan");
}

TEST(ParseIntegerTest, ReadsWholeTextsOf64Bits) {
  EXPECT_EQ(ParseInteger("42"), 42);
  EXPECT_EQ(ParseInteger("+42"), 42);
  EXPECT_EQ(ParseInteger("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(ParseInteger("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ParseInteger("ff", 16), 255);
  for (const char* text : {"", "+", "-", "+-1", "1 ", " 1", "1.0", "x"}) {
    EXPECT_EQ(ParseInteger(text), std::nullopt) << text;
  }
}

TEST(ParseFloatTest, RoundsCorrectlyAndSaturates) {
  EXPECT_EQ(ParseFloat("1.5"), 1.5);
  EXPECT_EQ(ParseFloat("+1e3"), 1000.0);
  EXPECT_EQ(ParseFloat("9007199254740993"), 9007199254740992.0);
  EXPECT_EQ(ParseFloat("1e400"), INFINITY);
  EXPECT_EQ(ParseFloat("-1e400"), -INFINITY);
  EXPECT_EQ(ParseFloat("1e-400"), 0.0);
  for (const char* text : {"", "+", "+-1", "1 ", "x", "1e"}) {
    EXPECT_EQ(ParseFloat(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace kvd
