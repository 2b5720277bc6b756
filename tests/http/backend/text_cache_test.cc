#include "http/backend/text_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

namespace kvd::http {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsNull;
using ::testing::Pointee;

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string KeyOf(std::string_view text, std::uint16_t flags = 0) {
  return TextCache::KeyOf(wire::Verb::kTokenize, flags, BytesOf(text));
}

TEST(TextCacheTest, AResultIsFoundByVerbFlagsAndText) {
  TextCache cache;
  EXPECT_THAT(cache.Find(KeyOf("a")), IsNull());
  cache.Put(KeyOf("a"), BytesOf("one"));
  cache.Put(KeyOf("a", 256), BytesOf("two"));
  cache.Put(KeyOf(""), BytesOf(""));
  EXPECT_THAT(cache.Find(KeyOf("a")), Pointee(ElementsAreArray(BytesOf("one"))));
  EXPECT_THAT(cache.Find(KeyOf("a", 256)), Pointee(ElementsAreArray(BytesOf("two"))));
  EXPECT_THAT(cache.Find(KeyOf("a", 1)), IsNull());
  EXPECT_THAT(cache.Find(KeyOf("")), Pointee(ElementsAreArray(BytesOf(""))));
  EXPECT_THAT(cache.Find(TextCache::KeyOf(wire::Verb::kDetokenize, 0, BytesOf("a"))), IsNull());
}

TEST(TextCacheTest, LongTextsAndLongResultsAreNotCached) {
  TextCache cache;
  const std::string longest(TextCache::kQuestionBytesMax, 'a');
  EXPECT_EQ(KeyOf(longest + "a"), "");
  cache.Put(KeyOf(longest + "a"), BytesOf("b"));
  EXPECT_THAT(cache.Find(KeyOf(longest + "a")), IsNull());
  const std::string answer(TextCache::kAnswerBytesMax, 'b');
  cache.Put(KeyOf(longest), BytesOf(answer));
  EXPECT_THAT(cache.Find(KeyOf(longest)), Pointee(ElementsAreArray(BytesOf(answer))));
  cache.Put(KeyOf("a"), BytesOf(answer + "b"));
  EXPECT_THAT(cache.Find(KeyOf("a")), IsNull());
}

TEST(TextCacheTest, TheLeastRecentlyUsedEntriesAreDropped) {
  TextCache cache;
  cache.Put(KeyOf("used"), BytesOf("1"));
  cache.Put(KeyOf("unused"), BytesOf("2"));
  for (std::size_t i = 0; i < 4 * TextCache::kEntriesOfHalf; ++i) {
    cache.Put(KeyOf(std::to_string(i)), BytesOf("3"));
    ASSERT_THAT(cache.Find(KeyOf("used")), Pointee(ElementsAreArray(BytesOf("1")))) << i;
  }
  EXPECT_THAT(cache.Find(KeyOf("unused")), IsNull());
  EXPECT_THAT(cache.Find(KeyOf("0")), IsNull());
}

}  // namespace
}  // namespace kvd::http
