#include "engine/vocabulary/well_formed_text.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

using namespace std::string_literals;

TEST(WellFormedTextTest, AWellFormedTextIsNotCopied) {
  std::string text = "a\u20ac\U0001f999"s + '\0';
  WellFormedText view(text);
  EXPECT_EQ(view.view().data(), text.data());
  EXPECT_EQ(view.OriginalOffset(4), 4u);
}

TEST(WellFormedTextTest, EachInvalidByteIsReplacedAndOffsetsMapToTheOriginal) {
  std::string text = "a\xff\u20ac\x80\x81z";
  WellFormedText view(text);
  EXPECT_EQ(view.view(), "a\ufffd\u20ac\ufffd\ufffdz");
  std::size_t offsets[][2] = {{0, 0}, {1, 1}, {4, 2}, {7, 5}, {10, 6}, {13, 7}, {14, 8}};
  for (auto [in_view, original] : offsets)
    EXPECT_EQ(view.OriginalOffset(in_view), original) << in_view;
}

}  // namespace
}  // namespace kvd
