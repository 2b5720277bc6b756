#include "daemon/process/weight_reading.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace kvd {
namespace {

WeightReader ReaderOf(std::uint64_t bytes) {
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  return WeightReader(
      {{std::shared_ptr<const std::byte>(static_cast<const std::byte*>(mapped),
                                         [=](const std::byte*) { ::munmap(mapped, bytes); }),
        bytes}});
}

TEST(WeightThreadTest, AnUnusedThreadHasNoProgress) {
  WeightThread weights;
  EXPECT_FALSE(weights.has_started());
  EXPECT_EQ(weights.progress().bytes_read, 0u);
  EXPECT_EQ(weights.progress().bytes_to_read, 0u);
  weights.Stop();
}

TEST(WeightThreadTest, TheCallbackRunsAfterAllBytesAreRead) {
  constexpr std::uint64_t kBytes = (std::uint64_t{20} << 20) + 4096;
  for (const auto priority : {WeightThread::Priority::kNormal, WeightThread::Priority::kLow}) {
    WeightThread weights;
    std::atomic<bool> is_read = false;
    weights.Start(ReaderOf(kBytes), priority, [&] {
      is_read = true;
      is_read.notify_one();
    });
    EXPECT_TRUE(weights.has_started());
    is_read.wait(false);
    EXPECT_EQ(weights.progress().bytes_read, kBytes);
    EXPECT_EQ(weights.progress().bytes_to_read, kBytes);
  }
}

TEST(WeightThreadTest, AStoppedThreadDoesNotRunTheCallback) {
  // More bytes than any machine reads before Stop.
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 40;
  WeightThread weights;
  std::atomic<bool> is_read = false;
  weights.Start(ReaderOf(kBytes), WeightThread::Priority::kLow, [&] { is_read = true; });
  weights.Stop();
  EXPECT_FALSE(is_read);
  EXPECT_LT(weights.progress().bytes_read, kBytes);
}

}  // namespace
}  // namespace kvd
