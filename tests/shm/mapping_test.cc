#include "shm/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"

namespace kvd {
namespace {

UniqueFd MakeFile(off_t byte_count) {
  UniqueFd file(::memfd_create("mapping_test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(file.get(), byte_count), 0);
  return file;
}

TEST(MappingTest, WritesReachEveryMappingOfTheFile) {
  const UniqueFd file = MakeFile(8192);
  auto writable = *Mapping<kReadWrite>::MapAll(file.get());
  auto readable = *Mapping<kReadOnly>::MapRange(file.get(), 4096, 4096);
  EXPECT_EQ(writable.byte_count(), 8192u);
  writable.data()[4097] = std::byte{42};
  EXPECT_EQ(readable.data()[1], std::byte{42});
  static_assert(std::is_const_v<std::remove_pointer_t<decltype(readable.data())>>);
}

TEST(MappingTest, AMovedFromMappingHoldsNothing) {
  const UniqueFd file = MakeFile(4096);
  auto first = *Mapping<kReadWrite>::MapAll(file.get());
  Mapping<kReadWrite> second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_TRUE(first.bytes().empty());
  second.data()[0] = std::byte{1};
  second = Mapping<kReadWrite>();
  EXPECT_EQ(second.data(), nullptr);
}

TEST(MappingTest, RefusesRangesBeyondTheFile) {
  const UniqueFd file = MakeFile(8192);
  EXPECT_EQ(Mapping<kReadOnly>::MapRange(file.get(), 4096, 4097).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(Mapping<kReadOnly>::MapRange(file.get(), 12288, 1).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(Mapping<kReadOnly>::MapRange(file.get(), 1, 1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Mapping<kReadOnly>::MapRange(file.get(), 0, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Mapping<kReadOnly>::MapRange(file.get(), 0, ~std::size_t{0}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(Mapping<kReadOnly>::MapAll(MakeFile(0).get()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Mapping<kReadOnly>::MapAll(-1).error().code, Code::kIo);
}

TEST(MappingTest, AReadOnlyDescriptorIsNotMappedForWriting) {
  const UniqueFd file = MakeFile(4096);
  const UniqueFd again(
      ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(again);
  EXPECT_EQ(Mapping<kReadWrite>::MapAll(again.get()).error().code, Code::kIo);
  EXPECT_TRUE(Mapping<kReadOnly>::MapAll(again.get()));
}

TEST(UniqueFdTest, ClosesWhatItOwnsOnce) {
  UniqueFd file = MakeFile(0);
  const int number = file.get();
  UniqueFd other = std::move(file);
  EXPECT_FALSE(file);
  EXPECT_EQ(other.get(), number);
  other.reset();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace kvd
