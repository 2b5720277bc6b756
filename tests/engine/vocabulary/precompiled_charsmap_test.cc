#include "engine/vocabulary/precompiled_charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/vocabulary/charsmap_bytes.h"
#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using testing::HasSubstr;

std::string MessageOf(std::span<const std::byte> bytes) {
  Result<PrecompiledCharsmap> made = PrecompiledCharsmap::Create(bytes);
  EXPECT_FALSE(made.has_value());
  if (made) return {};
  EXPECT_EQ(made.error().code, Code::kCorrupt);
  EXPECT_THAT(made.error().message, HasSubstr("tokenizer.ggml.precompiled_charsmap"));
  return made.error().message;
}

TEST(PrecompiledCharsmapTest, TheLongestMatchingRuleIsFound) {
  auto map = PrecompiledCharsmap::Create(CharsmapBytes({{"a", "x"}, {"abc", "yy"}, {"\xc3", ""}}));
  ASSERT_TRUE(map.has_value()) << map.error().message;
  EXPECT_EQ(map->LongestPrefix("ab").bytes, 1u);
  EXPECT_EQ(map->LongestPrefix("ab").replacement, "x");
  EXPECT_EQ(map->LongestPrefix("abcd").bytes, 3u);
  EXPECT_EQ(map->LongestPrefix("abcd").replacement, "yy");
  EXPECT_EQ(map->LongestPrefix("\xc3").bytes, 1u);
  EXPECT_EQ(map->LongestPrefix("\xc3").replacement, "");
  EXPECT_EQ(map->LongestPrefix("b").bytes, 0u);
  EXPECT_EQ(map->LongestPrefix("").bytes, 0u);
  EXPECT_EQ(map->LongestPrefix(std::string_view("\0a", 2)).bytes, 0u);
}

TEST(PrecompiledCharsmapTest, ImpossibleSizesAreNamed) {
  std::vector<std::byte> bytes = CharsmapBytes({{"a", "x"}});
  EXPECT_THAT(MessageOf(std::span(bytes).first(3)), HasSubstr("3 bytes"));
  EXPECT_THAT(MessageOf(std::vector<std::byte>(PrecompiledCharsmap::kBytesMax + 1)),
              HasSubstr("the limits are"));
  EXPECT_THAT(MessageOf(std::span(bytes).first(100)), HasSubstr("remain for it"));
  EXPECT_THAT(MessageOf(std::span(bytes).first(bytes.size() - 2)), HasSubstr("remain for it"));
  EXPECT_THAT(MessageOf(std::span(bytes).first(bytes.size() - 1)), HasSubstr("not terminated"));
  EXPECT_THAT(MessageOf(CharsmapBytes(std::span<const std::uint32_t>(), "x")),
              HasSubstr("a trie of 0 bytes"));
  bytes[0] = std::byte{1};
  EXPECT_THAT(MessageOf(bytes), HasSubstr("a trie of"));
}

TEST(PrecompiledCharsmapTest, ReplacementsAndUnitsOutOfRangeAreNamed) {
  constexpr std::uint32_t kEnds = 1u << 8;
  const std::string replacements("x\0", 2);
  // The children of the root begin at unit 0, so the root's child for label 'a' is unit 'a'.
  std::vector<std::uint32_t> units(256, 0x80000000);
  units[0] = 0;
  units['a'] = 'a' | kEnds | (1000u << 10);
  EXPECT_THAT(MessageOf(CharsmapBytes(units, replacements)), HasSubstr("names unit"));
  units['a'] = 'a' | kEnds | (('a' ^ 200u) << 10);
  units[200] = 0x80000000 | 2;
  EXPECT_THAT(MessageOf(CharsmapBytes(units, replacements)),
              HasSubstr("unit 97 names the replacement at 2 of 2 bytes"));
  units[200] = 0x80000000 | 1;
  EXPECT_TRUE(PrecompiledCharsmap::Create(CharsmapBytes(units, replacements)).has_value());
  units[0] = kEnds | (500u << 10);
  EXPECT_THAT(MessageOf(CharsmapBytes(units, replacements)), HasSubstr("unit 0 names unit"));
}

TEST(PrecompiledCharsmapTest, AUnitThatIsItsOwnDescendantIsNamed) {
  std::vector<std::uint32_t> units(256, 0x80000000);
  units[0] = 0;
  // offset: children also begin at unit 0
  units['a'] = 'a' | (static_cast<std::uint32_t>('a') << 10);
  EXPECT_THAT(MessageOf(CharsmapBytes(units, std::string(1, '\0'))),
              HasSubstr("unit 97 is its own descendant"));
}

TEST(PrecompiledCharsmapTest, RandomBytesCauseNoCrash) {
  std::mt19937 random(7);
  const std::vector<std::byte> good = CharsmapBytes({{"a", "x"}, {"ab", "y"}, {"bcd", "zz"}});
  for (int i = 0; i < test::Scaled(300, 300); ++i) {
    std::vector<std::byte> bytes = good;
    for (int flips = 0; flips < 20; ++flips)
      bytes[4 + random() % (bytes.size() - 4)] = static_cast<std::byte>(random());
    Result<PrecompiledCharsmap> map = PrecompiledCharsmap::Create(bytes);
    if (!map) continue;
    for (int length = 0; length < 64; ++length) {
      std::string text;
      for (int k = 0; k < length; ++k) text.push_back(static_cast<char>("abcd"[random() % 4]));
      EXPECT_LE(map->LongestPrefix(text).bytes, text.size());
    }
  }
}

}  // namespace
}  // namespace kvd
