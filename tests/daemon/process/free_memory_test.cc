#include "daemon/process/process_usage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvd {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

// A folder that stands for the root of the file system.
class FreeMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-free-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("/proc/meminfo",
          "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\n");
    Write("/proc/self/cgroup", "9:name=systemd:/x\n0::/kvd.slice/kvd.service\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void Limit(const std::string& group, const std::string& most, std::uint64_t used) {
    Write("/sys/fs/cgroup" + group + "/memory.max", most + "\n");
    Write("/sys/fs/cgroup" + group + "/memory.current", std::to_string(used) + "\n");
  }

  std::string root_;
};

TEST_F(FreeMemoryTest, WithoutALimitAllAvailableMemoryIsFree) {
  EXPECT_EQ(FreeMemoryBytes(root_), 8 * kMiB);
  Limit("/kvd.slice/kvd.service", "max", kMiB);
  EXPECT_EQ(FreeMemoryBytes(root_), 8 * kMiB);
  std::filesystem::remove(root_ + "/proc/self/cgroup");
  EXPECT_EQ(FreeMemoryBytes(root_), 8 * kMiB);
}

TEST_F(FreeMemoryTest, TheLimitOfAControlGroupLeavesItsUnusedBytes) {
  Limit("/kvd.slice/kvd.service", std::to_string(3 * kMiB), kMiB);
  EXPECT_EQ(FreeMemoryBytes(root_), 2 * kMiB);
  Limit("/kvd.slice/kvd.service", std::to_string(3 * kMiB), 4 * kMiB);
  EXPECT_EQ(FreeMemoryBytes(root_), 0u);
  Limit("/kvd.slice/kvd.service", std::to_string(64 * kMiB), 0);
  EXPECT_EQ(FreeMemoryBytes(root_), 8 * kMiB);
}

TEST_F(FreeMemoryTest, TheLimitOfAParentGroupApplies) {
  Limit("/kvd.slice/kvd.service", std::to_string(7 * kMiB), 0);
  Limit("/kvd.slice", std::to_string(6 * kMiB), kMiB);
  EXPECT_EQ(FreeMemoryBytes(root_), 5 * kMiB);
  Limit("", std::to_string(4 * kMiB), kMiB);  // the root of a container
  EXPECT_EQ(FreeMemoryBytes(root_), 3 * kMiB);
}

TEST_F(FreeMemoryTest, TheRootGroupOfAContainerIsRead) {
  Write("/proc/self/cgroup", "0::/\n");
  Limit("", std::to_string(4 * kMiB), kMiB);
  EXPECT_EQ(FreeMemoryBytes(root_), 3 * kMiB);
}

TEST_F(FreeMemoryTest, FilesWithoutANumberSetNoLimit) {
  Limit("/kvd.slice", "nonsense", kMiB);
  Write("/sys/fs/cgroup/kvd.slice/kvd.service/memory.max", "1\n");  // no memory.current
  EXPECT_EQ(FreeMemoryBytes(root_), 8 * kMiB);
}

TEST_F(FreeMemoryTest, UnknownMemoryCountsAsNone) {
  Write("/proc/meminfo", "MemTotal: 16384 kB\n");
  EXPECT_EQ(FreeMemoryBytes(root_), 0u);
  Write("/proc/meminfo", "MemAvailable: much\n");
  EXPECT_EQ(FreeMemoryBytes(root_), 0u);
}

TEST(FreeMemoryOfThisMachineTest, FreeMemoryIsAboveZero) { EXPECT_GT(FreeMemoryBytes(), 0u); }

}  // namespace
}  // namespace kvd
