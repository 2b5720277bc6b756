#include "http/api/slot_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/e2e/support/temporary_folder.h"

namespace kvd::http {
namespace {

using ::testing::HasSubstr;

class SlotDirectoryTest : public ::testing::Test {
 protected:
  SlotDirectory Open(SlotFolder place = {
                         .directory = {}, .folder = {}, .bytes_max = 1u << 20, .count_max = 100}) {
    place.directory = folder_.path().string();
    return std::move(*SlotDirectory::Open(place));
  }
  std::string PathOf(const std::string& name) { return (folder_.path() / name).string(); }
  void Write(const std::string& name, std::string_view text) {
    const SlotDirectory directory = Open();
    const auto file = directory.Create(name);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE((*file)->Write(std::as_bytes(std::span(text))));
    ASSERT_TRUE((*file)->Commit());
  }
  std::string Read(const std::string& name, std::uint64_t bytes_max = 1000) {
    const auto bytes = Open().Read(name, bytes_max);
    if (!bytes) {
      EXPECT_EQ(bytes.error().code, Code::kInvalidArgument);
      return "error: " + bytes.error().message;
    }
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  std::size_t CountFiles() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  kvd::test::TemporaryFolder folder_;
};

TEST_F(SlotDirectoryTest, EachTenantHasAFolderThatOthersCannotReach) {
  const SlotDirectory alice = Open({.folder = "tenant-alice", .bytes_max = 9, .count_max = 9});
  const auto file = alice.Create("one");
  ASSERT_TRUE(file && (*file)->Commit());
  EXPECT_TRUE(alice.Read("one", 10));
  EXPECT_FALSE(Open({.folder = "tenant-bob"}).Read("one", 10));
  EXPECT_FALSE(Open().Read("one", 10));
  EXPECT_EQ(Read("tenant-alice"), "error: tenant-alice: not a regular file");
  const auto mode = std::filesystem::status(PathOf("tenant-alice")).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_all);
}

TEST_F(SlotDirectoryTest, ALinkInPlaceOfTheFolderOfATenantIsNotFollowed) {
  std::filesystem::create_directory_symlink("/tmp", PathOf("tenant-eve"));
  const SlotFolder place{.directory = folder_.path().string(), .folder = "tenant-eve"};
  EXPECT_EQ(SlotDirectory::Open(place).error().code, Code::kIo);
}

TEST_F(SlotDirectoryTest, FilesAreLimitedByCountAndBytesWithoutTheReplacedFile) {
  Write("a", "12345");
  Write("b", "12345");
  const SlotDirectory limited = Open({.bytes_max = 12, .count_max = 2});
  EXPECT_EQ(limited.CheckRoom("c", 1).error().message, "slot files: 3, at most 2");
  EXPECT_TRUE(limited.CheckRoom("a", 7));
  const Status more = limited.CheckRoom("a", 8);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kTooLarge);
  EXPECT_EQ(more.error().message, "slot files: 13 bytes, at most 12");
}

TEST_F(SlotDirectoryTest, AnOrphanedFileCountsAndIsRemovedAfterAnHour) {
  const std::string left = PathOf(".a.1-1.tmp");
  std::ofstream(left) << "12345";
  const SlotDirectory limited = Open({.bytes_max = 7, .count_max = 1});
  EXPECT_FALSE(limited.CheckRoom("a", 3)) << "its bytes count, its name does not";
  EXPECT_TRUE(limited.CheckRoom("a", 2));
  std::filesystem::last_write_time(
      left, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(limited.CheckRoom("a", 3));
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST(IsSlotFileNameTest, OnlyPlainNamesAreAccepted) {
  for (const char* const name : {"slot1.bin", "a", "A-b_c.d..e", "_x", "-"}) {
    EXPECT_TRUE(IsSlotFileName(name)) << name;
  }
  EXPECT_TRUE(IsSlotFileName(std::string(kSlotFileNameMax, 'a')));
  EXPECT_FALSE(IsSlotFileName(std::string(kSlotFileNameMax + 1, 'a')));
  for (const char* const name :
       {"", ".", "..", ".hidden", "a/b", "../a", "/a", "a\\b", "a b", "a\nb", "\xc3\xa4"}) {
    EXPECT_FALSE(IsSlotFileName(name)) << name;
  }
  EXPECT_FALSE(IsSlotFileName(std::string_view("a\0b", 3)));
}

TEST_F(SlotDirectoryTest, AFileIsWrittenWholeOrNotAtAll) {
  Write("a.bin", "first");
  EXPECT_EQ(Read("a.bin"), "first");
  {
    const SlotDirectory directory = Open();
    const auto file = directory.Create("a.bin");
    ASSERT_TRUE((*file)->Write(std::as_bytes(std::span("second"))));
    EXPECT_EQ(CountFiles(), 2u);
  }
  EXPECT_EQ(CountFiles(), 1u) << "the file that was not committed is removed";
  EXPECT_EQ(Read("a.bin"), "first");
  Write("a.bin", "second");
  EXPECT_EQ(Read("a.bin"), "second");
  struct stat about{};
  ASSERT_EQ(::stat(PathOf("a.bin").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777u, 0600u);
}

TEST_F(SlotDirectoryTest, NoSymbolicLinkIsFollowed) {
  kvd::test::TemporaryFolder elsewhere;
  const std::string target = (elsewhere.path() / "target").string();
  std::ofstream(target) << "secret";
  ASSERT_EQ(::symlink(target.c_str(), PathOf("link").c_str()), 0);
  EXPECT_THAT(Read("link"), HasSubstr("is a symbolic link"));
  Write("link", "mine");
  EXPECT_EQ(Read("link"), "mine") << "the link is replaced";
  std::ifstream file(target);
  std::string content;
  file >> content;
  EXPECT_EQ(content, "secret");
}

TEST_F(SlotDirectoryTest, OtherFilesThanSlotFilesAreRefused) {
  EXPECT_THAT(Read("none"), HasSubstr("none: no such file"));
  ASSERT_EQ(::mkdir(PathOf("folder").c_str(), 0700), 0);
  EXPECT_THAT(Read("folder"), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo(PathOf("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Read("pipe"), HasSubstr("not a regular file"));
  Write("large", "12345678");
  EXPECT_THAT(Read("large", 7), HasSubstr("8 bytes, a slot has at most 7"));
  EXPECT_EQ(Read("large", 8), "12345678");
  EXPECT_EQ(SlotDirectory::Open({.directory = (folder_.path() / "none").string()}).error().code,
            Code::kIo);
}

}  // namespace
}  // namespace kvd::http
