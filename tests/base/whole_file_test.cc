// WholeFileWriter: the path has the old file or the complete new one, and writers do not disturb
// each other.
#include "base/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace kvd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WholeFileTest : public ::testing::Test {
 protected:
  WholeFileTest() {
    std::string name = (fs::temp_directory_path() / "kvd-whole-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~WholeFileTest() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ / "file"; }
  std::string Text() const {
    const auto bytes = ReadWholeFile(path());
    if (!bytes) return bytes.error().message;
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  std::size_t FileCount() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

Status Write(WholeFileWriter& writer, std::string_view text) {
  return writer.Write(std::as_bytes(std::span(text)));
}

TEST_F(WholeFileTest, AWriterThatDoesNotCommitLeavesTheOldFile) {
  std::ofstream(path()) << "old";
  {
    auto writer = WholeFileWriter::Create(path());
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(Write(*writer, "new"));
    EXPECT_EQ(Text(), "old");
    EXPECT_EQ(FileCount(), 2u);
  }
  EXPECT_EQ(Text(), "old");
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(WholeFileTest, AnExistingFileIsKeptIfTheWriterSaysSo) {
  std::ofstream(path()) << "old";
  {
    auto writer = WholeFileWriter::Create(path());
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(Write(*writer, "new"));
    const Status kept = writer->Commit(ExistingFile::kKeep);
    ASSERT_FALSE(kept);
    EXPECT_EQ(kept.error().code, Code::kExists);
  }
  EXPECT_EQ(Text(), "old");
  EXPECT_EQ(FileCount(), 1u);
  fs::remove(path());
  auto writer = WholeFileWriter::Create(path());
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(Write(*writer, "new"));
  EXPECT_TRUE(writer->Commit(ExistingFile::kKeep));
  EXPECT_EQ(Text(), "new");
}

TEST_F(WholeFileTest, TwoWritersOfOnePathWriteSeparateFiles) {
  auto first = WholeFileWriter::Create(path());
  auto second = WholeFileWriter::Create(path());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  ASSERT_TRUE(Write(*first, "first"));
  ASSERT_TRUE(Write(*second, "second"));
  ASSERT_TRUE(first->Commit());
  EXPECT_EQ(Text(), "first");
  ASSERT_TRUE(second->Commit());
  EXPECT_EQ(Text(), "second");
  EXPECT_EQ(FileCount(), 1u);
}

// A killed process leaves its temporary files. The kernel may give the process id of a killed
// process to another process.
TEST_F(WholeFileTest, TemporaryFilesOfAKilledProcessAreIgnored) {
  const std::string prefix = path() + "." + std::to_string(::getpid()) + "-";
  for (int number = 1; number <= 20; ++number) {
    std::ofstream(prefix + std::to_string(number) + ".tmp") << "left";
  }
  auto writer = WholeFileWriter::Create(path());
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(Write(*writer, "new") && writer->Commit());
  EXPECT_EQ(Text(), "new");
}

TEST_F(WholeFileTest, AFileThatCannotBeReadOrWrittenIsNamed) {
  EXPECT_EQ(ReadWholeFile(path()).error().code, Code::kNotFound);
  EXPECT_EQ(ReadWholeFile(folder_).error().code, Code::kInvalidArgument);
  const auto writer = WholeFileWriter::Create(folder_ / "missing" / "file");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kNotFound);
  EXPECT_THAT(writer.error().message, HasSubstr("missing/file"));
}

}  // namespace
}  // namespace kvd
