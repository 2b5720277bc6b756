#include "daemon/process/weight_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace kvd {
namespace {

using ::testing::HasSubstr;

TEST(WeightReadingTest, OnAndOffDoNotDependOnFreeMemory) {
  for (const bool is_locked : {false, true}) {
    EXPECT_EQ(ChooseReading(Prefetch::kOn, is_locked, 10, 1), WeightReading::kBeforeServing);
    EXPECT_EQ(ChooseReading(Prefetch::kOff, is_locked, 10, 100), WeightReading::kOnUse);
  }
}

TEST(WeightReadingTest, AutoReadsOnlyWeightsThatFit) {
  EXPECT_EQ(ChooseReading(Prefetch::kAuto, false, 10, 10), WeightReading::kInBackground);
  EXPECT_EQ(ChooseReading(Prefetch::kAuto, false, 10, 9), WeightReading::kOnUse);
}

TEST(WeightReadingTest, AutoReadsLockedWeightsBeforeServing) {
  EXPECT_EQ(ChooseReading(Prefetch::kAuto, true, 10, 1), WeightReading::kBeforeServing);
}

TEST(WeightReadingTest, AFailureToLockNamesTheLimit) {
  const Error error{Code::kNoSpace, "40 bytes: refused"};
  EXPECT_THAT(NotLockedText(error, 8192),
              HasSubstr("--mlock: 40 bytes: refused; RLIMIT_MEMLOCK is 8192 bytes (raise it"));
  EXPECT_THAT(NotLockedText(error, std::nullopt), HasSubstr("RLIMIT_MEMLOCK is unlimited"));
}

TEST(WeightReadingTest, TheLimitIsReadInBytes) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &small), 0);
  EXPECT_EQ(LockLimitBytes(), 4096u);
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

}  // namespace
}  // namespace kvd
