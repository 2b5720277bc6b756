#include "http/api/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/text.h"

namespace kvd::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTextTest, EveryNameOfLlamaServerHasHelpTypeAndValue) {
  const std::string text = MetricsText({}, {}, {});
  for (const char* const name :
       {"prompt_tokens_total", "prompt_tokens_cached_total", "prompt_seconds_total",
        "tokens_predicted_total", "tokens_predicted_seconds_total", "n_decode_total",
        "n_tokens_max", "spec_decode_num_draft_tokens_total",
        "spec_decode_num_accepted_tokens_total", "spec_decode_num_drafts_total"}) {
    const std::string full = std::string("llamacpp:") + name;
    EXPECT_THAT(text, HasSubstr("# HELP " + full + " "));
    EXPECT_THAT(text, HasSubstr(Concat("# TYPE ", full, " counter\n", full, " 0\n")));
  }
  for (const char* const name :
       {"prompt_tokens_seconds", "predicted_tokens_seconds", "requests_processing",
        "requests_deferred", "n_busy_slots_per_decode"}) {
    const std::string full = std::string("llamacpp:") + name;
    EXPECT_THAT(text, HasSubstr(Concat("# TYPE ", full, " gauge\n", full, " 0\n")));
  }
  EXPECT_THAT(text, Not(HasSubstr("kvd:")));
}

TEST(MetricsTextTest, CountersAreWrittenWithoutExponents) {
  GatewayCounts counts;
  counts.metrics.prompt_tokens_computed = 100000000;
  counts.metrics.prompt_time = std::chrono::milliseconds(1500);
  counts.metrics.pieces = 4;
  counts.metrics.busy_at_pieces = 10;
  counts.busy = 2;
  const std::string text = MetricsText(counts, {.prompt_tokens_per_s = 12.5}, {});
  EXPECT_THAT(text, HasSubstr("\nllamacpp:prompt_tokens_total 100000000\n"));
  EXPECT_THAT(text, HasSubstr("\nllamacpp:prompt_seconds_total 1.5\n"));
  EXPECT_THAT(text, HasSubstr("\nllamacpp:prompt_tokens_seconds 12.5\n"));
  EXPECT_THAT(text, HasSubstr("\nllamacpp:n_busy_slots_per_decode 2.5\n"));
  EXPECT_THAT(text, HasSubstr("\nllamacpp:requests_processing 2\n"));
}

TEST(MetricsTextTest, EachDaemonHasASeriesOfItsOwn) {
  DaemonCounts one{.model = "a\"b\\c\nd"}, two{.model = "two"};
  one.info.pool_cells = 4096;
  two.info.pool_cells = 512;
  const std::string text = MetricsText({}, {}, {one, two});
  EXPECT_THAT(text, HasSubstr("# TYPE kvd:pool_cells gauge\n"
                              "kvd:pool_cells{model=\"a\\\"b\\\\c d\"} 4096\n"
                              "kvd:pool_cells{model=\"two\"} 512\n"));
}

TEST(RatesBetweenTest, OnlyNewTokensCount) {
  Metrics before, now;
  before.prompt_tokens_computed = 100;
  before.prompt_time = std::chrono::seconds(10);
  now.prompt_tokens_computed = 160;
  now.prompt_time = std::chrono::seconds(12);
  const RecentRates rates = RatesBetween(before, now);
  EXPECT_EQ(rates.prompt_tokens_per_s, 30);
  EXPECT_EQ(rates.predicted_tokens_per_s, 0);
}

TEST(AddTest, MetricsOfDaemonsAreSummedAndTheLongestSequenceIsKept) {
  Metrics sum, more;
  sum.tokens_max = 7;
  more.tokens_max = 5;
  more.pieces = 3;
  more.predicted_tokens = 2;
  Add(more, sum);
  Add(more, sum);
  EXPECT_EQ(sum.pieces, 6u);
  EXPECT_EQ(sum.predicted_tokens, 4u);
  EXPECT_EQ(sum.tokens_max, 7u);
}

}  // namespace
}  // namespace kvd::http
