#include "engine/sampling/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "shm/wire_generate.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

StopMatcher Make(std::vector<std::string> stops) {
  auto matcher = StopMatcher::Create(std::move(stops));
  EXPECT_TRUE(matcher.has_value()) << matcher.error().message;
  return std::move(*matcher);
}

struct Outcome {
  std::string text;
  std::optional<std::size_t> matched;
  friend bool operator==(const Outcome&, const Outcome&) = default;
  friend void PrintTo(const Outcome& outcome, std::ostream* out) {
    *out << '"' << outcome.text << "\" ";
    if (outcome.matched) *out << "stop " << *outcome.matched;
  }
};

Outcome FeedAll(StopMatcher matcher, const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += matcher.Feed(piece);
  text += matcher.Flush();
  return {text, matcher.matched()};
}

// The definition of a match: the text is cut at the first byte at which a stop string ends; if
// several end there, the longest one matches.
Outcome Naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> longest;
    for (std::size_t s = 0; s < stops.size(); ++s)
      if (text.substr(0, end).ends_with(stops[s]) &&
          (!longest || stops[s].size() > stops[*longest].size()))
        longest = s;
    if (longest) return {text.substr(0, end - stops[*longest].size()), longest};
  }
  return {text, std::nullopt};
}

void ExpectEverySplit(const std::vector<std::string>& stops, const std::string& text) {
  const Outcome expected = Naive(stops, text);
  for (std::size_t a = 0; a <= text.size(); ++a)
    for (std::size_t b = a; b <= text.size(); ++b)
      EXPECT_EQ(FeedAll(Make(stops), {text.substr(0, a), text.substr(a, b - a), text.substr(b)}),
                expected)
          << "split at " << a << " and " << b;
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  EXPECT_EQ(FeedAll(Make(stops), bytes), expected) << "byte by byte";
}

TEST(StopMatcherTest, StopIsFoundAtEverySplit) {
  ExpectEverySplit({"<|end|>"}, "Tell me.<|en <|end|> and more");
  ExpectEverySplit({"\n\n", "User:"}, "One\nTwo Use\nUser: three\n\n");
}

TEST(StopMatcherTest, StopThatOverlapsItselfIsFoundAtEverySplit) {
  ExpectEverySplit({"aab"}, "aaaab");
  ExpectEverySplit({"abababc"}, "xabababababcx");
  ExpectEverySplit({"aaaa"}, "baaabaaaaab");
}

TEST(StopMatcherTest, StopsThatOverlapEachOtherAreFoundAtEverySplit) {
  ExpectEverySplit({"abcd", "bc"}, "xabcdx");
  ExpectEverySplit({"bcd", "abcd"}, "xabcdx");
  ExpectEverySplit({"she", "he", "hers"}, "ushers");
  ExpectEverySplit({"abcx", "bcy"}, "abcbcyabcx");
}

TEST(StopMatcherTest, TextWithoutStopComesOutWholeAtEverySplit) {
  ExpectEverySplit({"<|end|>", "<|user|>"}, "a <|e b <|user c <|");
  ExpectEverySplit({}, "nothing stops this");
}

TEST(StopMatcherModelTest, RandomTextsOverASmallAlphabetAgreeWithTheDefinition) {
  std::mt19937 random(11);
  const auto text_of = [&](std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) stop = text_of(1 + random() % 6);
    const std::string text = text_of(random() % 40);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = random() % 8;
      pieces.push_back(text.substr(at, bytes));
      at += bytes;
    }
    ASSERT_EQ(FeedAll(Make(stops), pieces), Naive(stops, text)) << "round " << round;
  }
}

TEST(StopMatcherTest, HoldsBackOnlyTextThatMayBecomeAStop) {
  StopMatcher matcher = Make({"STOP"});
  EXPECT_EQ(matcher.Feed("one ST"), "one ");
  EXPECT_EQ(matcher.Feed("ART S"), "START ");
  EXPECT_EQ(matcher.Feed("x"), "Sx");
  EXPECT_EQ(matcher.Feed("STO"), "");
  EXPECT_EQ(matcher.Flush(), "STO");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, SwallowsEverythingAfterAMatch) {
  StopMatcher matcher = Make({"no", "STOP"});
  EXPECT_EQ(matcher.Feed("one STOP two"), "one ");
  EXPECT_EQ(matcher.matched(), 1u);
  EXPECT_EQ(matcher.Feed(" three no"), "");
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_EQ(matcher.matched(), 1u);
}

TEST(StopMatcherTest, FlushedTextDoesNotCountForLaterStops) {
  StopMatcher matcher = Make({"STOP"});
  EXPECT_EQ(matcher.Feed("ST"), "");
  EXPECT_EQ(matcher.Flush(), "ST");
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_EQ(matcher.Feed("OP"), "OP");
}

TEST(StopMatcherTest, StopsOutsideTheLimitsAreRefused) {
  const auto empty = StopMatcher::Create({"a", ""});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::kInvalidArgument);
  EXPECT_THAT(empty.error().message, HasSubstr("stop string 1: 0 bytes given, must be 1 to 256"));
  EXPECT_FALSE(StopMatcher::Create({std::string(wire::kStopBytesMax + 1, 'a')}));
  EXPECT_TRUE(StopMatcher::Create({std::string(wire::kStopBytesMax, 'a')}));
  const auto many = StopMatcher::Create(std::vector<std::string>(wire::kStopsMax + 1, "a"));
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().message, HasSubstr("stop strings: 17 given, at most 16"));
  EXPECT_TRUE(StopMatcher::Create(std::vector<std::string>(wire::kStopsMax, "a")));
}

}  // namespace
}  // namespace kvd
