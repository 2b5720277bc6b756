#include "daemon/process/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/daemon/support/simulated_loop.h"

namespace kvd {
namespace {

using testing::HasSubstr;
using testing::Not;

int CountOf(const std::string& text, const std::string& word) {
  int count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(LimitedLogTest, RepeatedEventsAreWrittenAFewTimesAndThenCounted) {
  test::SimulatedLoop loop([](std::size_t) { return std::size_t{0}; });
  LimitedLog log(loop);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 20'000; ++i) log.Log(LogLevel::kWarning, "refused", "uid=7");
  log.Log(LogLevel::kInfo, "given_up", "session=1");
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(CountOf(text, "warning refused uid=7"), LimitedLog::kLinesPerPeriod);
  EXPECT_THAT(text, HasSubstr("info given_up session=1")) << "events are counted by themselves";
  EXPECT_THAT(text, Not(HasSubstr("left_out")));

  loop.Advance(LimitedLog::kPeriod);
  testing::internal::CaptureStderr();
  while (loop.RunOne()) {
  }
  text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("warning refused_left_out count=19990"));
  EXPECT_THAT(text, Not(HasSubstr("given_up_left_out")));

  testing::internal::CaptureStderr();
  log.Log(LogLevel::kWarning, "refused", "uid=8");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("refused uid=8"));
}

TEST(LimitedLogTest, TheNumberOfOmittedLinesIsWrittenAtTheEnd) {
  test::SimulatedLoop loop([](std::size_t) { return std::size_t{0}; });
  std::optional<LimitedLog> log(std::in_place, loop);
  testing::internal::CaptureStderr();
  for (int i = 0; i < LimitedLog::kLinesPerPeriod + 3; ++i) log->Log(LogLevel::kInfo, "e", "f");
  log.reset();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("info e_left_out count=3"));
}

}  // namespace
}  // namespace kvd
