// Tests the names of the files of a stored state, what is kept aside, and what is removed.
#include "engine/memory/state_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/memory/memory_segments.h"
#include "engine/memory/rebuild.h"
#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

class StateFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvd-files-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    directory_ = UniqueFd(::open(pattern.c_str(), O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override { fs::remove_all(root_); }

  StateFiles Files() const { return StateFiles(directory_.get()); }
  // Creates and publishes a `meta` with its pool.
  void MakeState() {
    const StateFiles files = Files();
    const Result<MemorySegments> made = MemorySegments::Create(
        files, *ComputeGeometry(SmallOptions(64)), {.pool_number = files.NewPoolNumber()});
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE(files.Publish());
  }
  void Write(const char* name) const { std::ofstream(root_ / name) << "x"; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_))
      names.push_back(entry.path().filename());
    return names;
  }

  fs::path root_;
  UniqueFd directory_;
};

TEST_F(StateFilesTest, NamesHaveTheNumberOfThePoolAndThePart) {
  EXPECT_EQ(StateFiles::PoolFileName(0, 0), "pool");
  EXPECT_EQ(StateFiles::PoolFileName(3, 0), "pool.3");
  EXPECT_EQ(StateFiles::PoolFileName(0, 2), "pool-g2");
  EXPECT_EQ(StateFiles::PoolFileName(3, PoolParts::kStates), "pool.3-states");
  EXPECT_EQ(StateFiles::PoolFileName(0, PoolParts::kLogits), "pool-logits");
  EXPECT_EQ(StateFiles::AsideName(0), "meta.bad");
  EXPECT_EQ(StateFiles::AsideName(12), "meta.bad.12");
}

TEST_F(StateFilesTest, NewFilesArePrivateAndReplaceEarlierOnes) {
  const fs::path target = root_ / "elsewhere";
  ASSERT_EQ(::symlinkat(target.c_str(), directory_.get(), "meta.new"), 0);
  ASSERT_NO_FATAL_FAILURE(MakeState());
  EXPECT_FALSE(fs::exists(target));
  for (const char* file : {"meta", "pool"}) {
    struct stat status;
    ASSERT_EQ(::fstatat(directory_.get(), file, &status, AT_SYMLINK_NOFOLLOW), 0);
    EXPECT_EQ(status.st_mode, static_cast<mode_t>(S_IFREG | 0600));
  }
  EXPECT_EQ(StateFiles(-1).Create("meta.new").error().code, Code::kIo);
}

TEST_F(StateFilesTest, AStateIsKeptAsideWithItsPool) {
  for (const auto* pool : {"pool", "pool.1", "pool.2"}) {
    ASSERT_NO_FATAL_FAILURE(MakeState());
    EXPECT_TRUE(fs::exists(root_ / pool));
    const Result<std::string> aside = Files().KeepAside();
    ASSERT_TRUE(aside);
    EXPECT_EQ(*aside, "meta.bad" + std::string(pool).substr(4));
    EXPECT_EQ(*Files().KeepAside(), *aside) << "an interrupted start has kept it aside before";
  }
  ASSERT_NO_FATAL_FAILURE(MakeState());
  EXPECT_TRUE(Files().Sweep(3).empty());
  EXPECT_THAT(Names(), UnorderedElementsAre("meta", "pool", "pool.1", "pool.2", "pool.3",
                                            "meta.bad", "meta.bad.1", "meta.bad.2"));
}

TEST_F(StateFilesTest, ADamagedMetaIsKeptAsideWithThePoolThatNoOtherFileNames) {
  ASSERT_NO_FATAL_FAILURE(MakeState());
  ASSERT_TRUE(Files().KeepAside());
  ASSERT_NO_FATAL_FAILURE(MakeState());
  fs::resize_file(root_ / "meta", 10);
  EXPECT_EQ(*Files().KeepAside(), "meta.bad.1");
}

TEST_F(StateFilesTest, AMetaOfAnEarlierLayoutHasThePoolWithoutANumber) {
  Write("meta");
  Write("pool");
  Write("meta.bad");  // of an earlier build: its pool was overwritten
  EXPECT_EQ(Files().NewPoolNumber(), 1u);
  EXPECT_EQ(*Files().KeepAside(), "meta.bad.1");
  EXPECT_TRUE(Files().Sweep(2).empty());
  EXPECT_TRUE(fs::exists(root_ / "pool"));
}

TEST_F(StateFilesTest, TheOldestFilesAreRemovedBeyondTheLimit) {
  for (std::size_t at = 0; at < StateFiles::kAsidesMax + 2; ++at) {
    ASSERT_NO_FATAL_FAILURE(MakeState());
    ASSERT_TRUE(Files().KeepAside());
    ::usleep(15'000);  // more than the resolution of the file system's times
  }
  ASSERT_NO_FATAL_FAILURE(MakeState());
  EXPECT_THAT(Files().Sweep(StateFiles::kAsidesMax + 2),
              UnorderedElementsAre("meta.bad", "meta.bad.1"));
  EXPECT_FALSE(fs::exists(root_ / "pool"));
  EXPECT_FALSE(fs::exists(root_ / "pool.1"));
  EXPECT_TRUE(fs::exists(root_ / "pool.2"));
}

TEST_F(StateFilesTest, AUsedMetaIsNotKeptAside) {
  ASSERT_NO_FATAL_FAILURE(MakeState());
  ASSERT_TRUE(Files().KeepAside());
  EXPECT_TRUE(Files().Sweep(0).empty());
  EXPECT_THAT(Names(), UnorderedElementsAre("meta", "pool"));
}

TEST_F(StateFilesTest, FilesOfAnInterruptedStartAreRemoved) {
  ASSERT_NO_FATAL_FAILURE(MakeState());
  for (const char* name : {"meta.new", "pool.7", "pool.7-states", "tuning", "pool.x"}) Write(name);
  EXPECT_TRUE(Files().Sweep(0).empty());
  EXPECT_THAT(Names(), UnorderedElementsAre("meta", "pool", "tuning", "pool.x"));
}

TEST_F(StateFilesTest, FilesThatAreKeptAsideGiveRoomAndThePresentStateDoesNot) {
  ASSERT_NO_FATAL_FAILURE(MakeState());
  ASSERT_TRUE(Files().KeepAside());
  ASSERT_NO_FATAL_FAILURE(MakeState());
  EXPECT_TRUE(Files().MakeRoom(1).empty());
  EXPECT_GT(Files().AsideBytes(), 0u);
  EXPECT_GT(Files().HeldBytes(), Files().AsideBytes());
  EXPECT_THAT(Files().MakeRoom(1ull << 60), ElementsAre("meta.bad"));
  EXPECT_THAT(Names(), UnorderedElementsAre("meta", "pool.1"));
  EXPECT_FALSE(Files().HasRoom(1ull << 60));
}

TEST_F(StateFilesTest, RemovingAllLeavesOtherFiles) {
  ASSERT_NO_FATAL_FAILURE(MakeState());
  ASSERT_TRUE(Files().KeepAside());
  ASSERT_NO_FATAL_FAILURE(MakeState());
  for (const char* name : {"meta.new", "pool.7-states", "tuning", "lock"}) Write(name);
  EXPECT_TRUE(Files().RemoveAll());
  EXPECT_FALSE(Files().RemoveAll());
  EXPECT_THAT(Names(), UnorderedElementsAre("tuning", "lock"));
}

}  // namespace
}  // namespace kvd
