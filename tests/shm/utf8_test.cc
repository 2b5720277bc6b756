#include "shm/utf8.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

TEST(Utf8Test, WellFormedTextIsValid) {
  for (const char* text : {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xe2\x82\xac!"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
}

TEST(Utf8Test, OverlongSurrogateTruncatedAndTooLargeAreNot) {
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xe2\x82", "\xe2\x82(",
        "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf0\x90\x80(", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace kvd
