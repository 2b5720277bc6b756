#include "base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd {
namespace {

TEST(TextTest, ConcatJoinsTextsAndNumbers) {
  EXPECT_EQ(Concat("cells: ", 900, " needed, ", std::string("128"), ' ', -1),
            "cells: 900 needed, 128 -1");
}

TEST(TextTest, OctalModeHasFourDigits) {
  EXPECT_EQ(OctalMode(0700), "0700");
  EXPECT_EQ(OctalMode(04755), "4755");
  EXPECT_EQ(OctalMode(0100644), "0644");  // without the kind of file
  EXPECT_EQ(OctalMode(0), "0000");
}

TEST(TextTest, CopyTextTruncatesAndEndsWithZero) {
  char field[4] = {'x', 'x', 'x', 'x'};
  CopyText("ab", field);
  EXPECT_EQ(std::string_view(field, 4), std::string_view("ab\0x", 4));
  CopyText("abcd", field);
  EXPECT_EQ(std::string_view(field, 4), std::string_view("abc\0", 4));
  CopyText("", field);
  EXPECT_EQ(field[0], '\0');
}

TEST(TextTest, FailWithinKeepsTheCodeAndPrefixesTheMessage) {
  const Error error = FailWithin("a.gguf", Error{Code::kCorrupt, "no magic"}).error();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, "a.gguf: no magic");
}

}  // namespace
}  // namespace kvd
