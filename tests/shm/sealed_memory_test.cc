#include "shm/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kvd {
namespace {

constexpr std::size_t kBytes = 8192;

TEST(SealedMemoryTest, TheMemoryCannotBeResized) {
  const auto memory = CreateSealedMemory("kvd-test", kBytes, Sealing::kSize);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(::ftruncate(memory->descriptor.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(memory->descriptor.get(), 2 * kBytes), -1);
  EXPECT_EQ(::fcntl(memory->descriptor.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(SealedMemoryTest, LaterWritableMappingsAreRefusedAndEarlierOnesWork) {
  const auto memory = CreateSealedMemory("kvd-test", kBytes, Sealing::kSizeAndLaterWrites);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_FALSE(Mapping<kReadWrite>::MapAll(memory->descriptor.get()));
  const std::string path = "/proc/self/fd/" + std::to_string(memory->descriptor.get());
  const UniqueFd reopened(::open(path.c_str(), O_RDWR));
  if (reopened) {
    EXPECT_FALSE(Mapping<kReadWrite>::MapAll(reopened.get()));
  }
  EXPECT_EQ(::write(memory->descriptor.get(), "x", 1), -1);
  const auto reader = Mapping<kReadOnly>::MapAll(memory->descriptor.get());
  ASSERT_TRUE(reader);
  memory->mapping.data()[5] = std::byte{9};
  EXPECT_EQ(reader->data()[5], std::byte{9});
}

TEST(SealedMemoryTest, TheMemoryIsPrivateToTheUserAndClosedOnExec) {
  const auto memory = CreateSealedMemory("kvd-test", kBytes, Sealing::kSize);
  ASSERT_TRUE(memory);
  struct stat status;
  ASSERT_EQ(::fstat(memory->descriptor.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_NE(::fcntl(memory->descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SealedMemoryTest, ASizeThatIsNoMultipleOfThePageIsRefused) {
  EXPECT_EQ(CreateSealedMemory("kvd-test", 0, Sealing::kSize).error().code, Code::kInvalidArgument);
  EXPECT_EQ(CreateSealedMemory("kvd-test", 100, Sealing::kSize).error().code,
            Code::kInvalidArgument);
}

TEST(SealedMemoryTest, CheckAcceptsCreatedMemory) {
  const auto memory = CreateSealedMemory("kvd-test", kBytes, Sealing::kSizeAndLaterWrites);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(CheckSealedMemory(memory->descriptor.get(), Sealing::kSizeAndLaterWrites, kBytes));
  EXPECT_TRUE(CheckSealedMemory(memory->descriptor.get(), Sealing::kSize, kBytes));
}

TEST(SealedMemoryTest, CheckNamesMissingSeals) {
  const auto memory = CreateSealedMemory("kvd-test", kBytes, Sealing::kSize);
  const auto check =
      CheckSealedMemory(memory->descriptor.get(), Sealing::kSizeAndLaterWrites, kBytes);
  ASSERT_FALSE(check);
  EXPECT_EQ(check.error().code, Code::kCorrupt);
  EXPECT_NE(check.error().message.find("seals"), std::string::npos);
}

TEST(SealedMemoryTest, CheckNamesAWrongSize) {
  const auto memory = CreateSealedMemory("kvd-test", kBytes, Sealing::kSize);
  const auto check = CheckSealedMemory(memory->descriptor.get(), Sealing::kSize, 2 * kBytes);
  ASSERT_FALSE(check);
  EXPECT_NE(check.error().message.find("8192 bytes, 16384 wanted"), std::string::npos);
}

TEST(SealedMemoryTest, CheckRefusesDescriptorsThatAreNoMemfd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_EQ(CheckSealedMemory(read_end.get(), Sealing::kSize, kBytes).error().code, Code::kCorrupt);
  EXPECT_EQ(CheckSealedMemory(-1, Sealing::kSize, kBytes).error().code, Code::kIo);
}

}  // namespace
}  // namespace kvd
