// Tests ForSections: each section is processed once, and a cancelled call processes no section.
#include "engine/saved_state/section_workers.h"

#include <gtest/gtest.h>

#include <chrono>

namespace kvd {
namespace {

using std::chrono::milliseconds;

// A control that reports a cancellation after a delay, so that other threads could start work
// first.
class LateControl final : public WorkControl {
 public:
  Status Continue() override {
    std::this_thread::sleep_for(milliseconds(200));
    return Fail(Code::kCancelled, "cancelled");
  }
};

TEST(SectionWorkersTest, WorkCancelledBeforeItBeginsRunsNoSection) {
  std::atomic<int> done = 0;
  LateControl control;
  const Status status = ForSections(
      4, 100, control,
      [&](unsigned, std::size_t) -> Status {
        ++done;
        return {};
      },
      [] {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
  EXPECT_EQ(done, 0);
}

TEST(SectionWorkersTest, EverySectionIsProcessedOnceByTheAvailableThreads) {
  std::vector<std::atomic<int>> done(100);
  UncontrolledWork control;
  ASSERT_TRUE(ForSections(
      4, done.size(), control,
      [&](unsigned worker, std::size_t number) -> Status {
        EXPECT_LT(worker, 4u);
        ++done[number];
        return {};
      },
      [] {}));
  for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace kvd
