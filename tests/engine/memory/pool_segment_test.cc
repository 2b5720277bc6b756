#include "engine/memory/pool_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "base/sanitizers.h"
#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSlab = 1 << 20;

std::uint64_t AllocatedBytes(int descriptor) {
  struct stat status;
  EXPECT_EQ(::fstat(descriptor, &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

TEST(PoolSegmentTest, ReservesSlabsBeforeUseAndReturnsAllButOneUnused) {
  UniqueFd file(::memfd_create("pool", MFD_CLOEXEC));
  const UniqueFd watched(::dup(file.get()));
  PoolSegment pool = *PoolSegment::Create(std::move(file), 4 * kSlab + 8192, kSlab);
  EXPECT_EQ(pool.reserved_bytes(), 0u);
  EXPECT_EQ(AllocatedBytes(watched.get()), 0u);
  pool.AddUse(0, 4096);
  ASSERT_TRUE(pool.EnsureReserved(0, 4096));
  EXPECT_EQ(pool.reserved_bytes(), kSlab);
  EXPECT_GE(AllocatedBytes(watched.get()), kSlab);
  // A use across the boundary of slabs 1 and 2, and a use in the short last slab.
  pool.AddUse(2 * kSlab - 4096, 8192);
  ASSERT_TRUE(pool.EnsureReserved(2 * kSlab - 4096, 8192));
  pool.AddUse(4 * kSlab, 4096);
  ASSERT_TRUE(pool.EnsureReserved(4 * kSlab, 4096));
  EXPECT_EQ(pool.reserved_bytes(), 3 * kSlab + 8192);

  pool.DropUse(2 * kSlab - 4096, 8192);
  EXPECT_TRUE(pool.has_unused());
  pool.PunchUnused();  // slabs 1 and 2 are unused: one is punched, one is kept
  EXPECT_EQ(pool.reserved_bytes(), 2 * kSlab + 8192);
  EXPECT_FALSE(pool.has_unused());
  pool.DropUse(0, 4096);
  pool.DropUse(4 * kSlab, 4096);
  pool.PunchUnused();
  EXPECT_EQ(pool.reserved_bytes(), kSlab);
  EXPECT_LE(AllocatedBytes(watched.get()), kSlab);
}

// DropUse reads the state of a slab that EnsureReserved and PunchUnused write on another thread.
// ThreadSanitizer reports a race if the pool does not synchronize them.
TEST(PoolSegmentTest, UsesEndOnAnyThreadWhileSlabsAreReserved) {
  constexpr std::uint64_t kSmallSlab = 4096;
  constexpr std::uint64_t kSlabs = 8;
  PoolSegment pool = *PoolSegment::Create(UniqueFd(::memfd_create("pool", MFD_CLOEXEC)),
                                          kSlabs * kSmallSlab, kSmallSlab);
  for (int round = 0; round < 200; ++round) {
    for (std::uint64_t slab = 0; slab < kSlabs; ++slab) {
      pool.AddUse(slab * kSmallSlab, kSmallSlab);
      pool.AddUse(slab * kSmallSlab, kSmallSlab);
    }
    std::thread verb([&] {
      for (std::uint64_t slab = 0; slab < kSlabs; ++slab) {
        pool.DropUse(slab * kSmallSlab, kSmallSlab);
      }
    });
    for (std::uint64_t slab = 0; slab < kSlabs; ++slab) {
      EXPECT_TRUE(pool.EnsureReserved(slab * kSmallSlab, kSmallSlab));
    }
    verb.join();
    EXPECT_EQ(pool.reserved_bytes(), kSlabs * kSmallSlab);
    EXPECT_FALSE(pool.has_unused());
    // The last use of each slab ends while PunchUnused runs.
    std::thread last([&] {
      for (std::uint64_t slab = 0; slab < kSlabs; ++slab) {
        pool.DropUse(slab * kSmallSlab, kSmallSlab);
      }
    });
    pool.PunchUnused();
    last.join();
    pool.PunchUnused();
    EXPECT_EQ(pool.reserved_bytes(), kSmallSlab);
    EXPECT_FALSE(pool.has_unused());
  }
}

// ThreadSanitizer's address space layout has no room for a mapping of 8 TiB.
#if !KVD_THREAD_SANITIZER
TEST(PoolSegmentTest, NoSpaceIsAnErrorWithTheNumbers) {
  // 8 TiB is more than the disk of a test machine has free, so the system refuses to reserve it.
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("kvd-pool-test-" + std::to_string(::getpid()));
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  std::filesystem::remove(path);
  constexpr std::uint64_t kHuge = 1ull << 43;
  Result<PoolSegment> pool = PoolSegment::Create(std::move(file), kHuge, kHuge);
  // the file system does not support files of 8 TiB
  if (!pool) GTEST_SKIP() << pool.error().message;
  const Status status = pool->EnsureReserved(0, 4096);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kNoSpace);
  EXPECT_THAT(status.error().message, HasSubstr(std::to_string(kHuge)));
  EXPECT_EQ(pool->reserved_bytes(), 0u);
}
#endif

// Runs in a process of its own, in which a tmpfs of six slabs is mounted. Returns 2 if it cannot be
// mounted.
int ReserveInASmallTmpfs(const std::string& path) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("kvd-test", path.c_str(), "tmpfs", 0, "size=12m") != 0) {
    return 2;
  }
  UniqueFd file(::open((path + "/pool").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  PoolSegment pool = *PoolSegment::Create(std::move(file), 64ull << 20);
  for (std::uint64_t at = 0; at < 5; ++at) {
    pool.AddUse(at * kSlabBytes, kSlabBytes);
    if (!pool.EnsureReserved(at * kSlabBytes, kSlabBytes)) return 3;
  }
  for (std::uint64_t at = 0; at < 4; ++at) pool.DropUse(at * kSlabBytes, kSlabBytes);
  pool.PunchUnused();
  if (pool.reserved_bytes() != 5 * kSlabBytes) return 4;  // the unused slabs are spare
  pool.AddUse(20 * kSlabBytes, 2 * kSlabBytes);
  if (!pool.EnsureReserved(20 * kSlabBytes, 2 * kSlabBytes)) return 5;
  return pool.reserved_bytes() == 3 * kSlabBytes ? 0 : 6;
}

TEST(PoolSegmentTest, SpareSlabsAreGivenUpWhenRoomIsLacking) {
  std::string path = (std::filesystem::temp_directory_path() / "kvd-small-XXXXXX").string();
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ReserveInASmallTmpfs(path));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::filesystem::remove(path);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "a tmpfs cannot be mounted";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MemorySegmentsTest, BlocksOfAnIdleMemoryAreReturnedToTheSystem) {
  MemoryOptions options = SmallOptions(64 * 32);
  const MemoryGeometry geometry = *ComputeGeometry(options);
  // A slab of four blocks.
  const auto memory = Memory::Create(
      *MemorySegments::CreateAnonymous(geometry, {}, 4 * geometry.meta.block_stride_bytes[0]));
  const std::uint64_t slab = 4 * geometry.meta.block_stride_bytes[0];
  const SequenceHandle handle = *memory->sequences().Create(SequenceOwner{});
  EXPECT_EQ(memory->Usage().reserved_bytes, 0u);
  ASSERT_TRUE(AppendTokens(*memory, handle, 0, 40 * 32));
  EXPECT_EQ(memory->Usage().reserved_bytes, 10 * slab);
  ASSERT_TRUE(memory->sequences().RemoveRange(handle, {Pos{9 * 32}, kPosEnd}));
  EXPECT_EQ(memory->Usage().reserved_bytes, 4 * slab);
  ASSERT_TRUE(memory->sequences().Drop(handle));
  EXPECT_EQ(memory->Usage().reserved_bytes, slab);
}

}  // namespace
}  // namespace kvd
