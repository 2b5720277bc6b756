#include "daemon/stores/state_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "shm/state_places.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

class StateDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-state-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string At(const char* name) const { return root_ + "/" + name; }
  std::string root_;
};

TEST_F(StateDirectoryTest, ANewDirectoryIsPrivateAndHoldsThePid) {
  const auto state = StateDirectory::Open(At("new"));
  ASSERT_TRUE(state) << state.error().message;
  struct stat found{};
  ASSERT_EQ(::stat(At("new").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777u, 0700u);
  std::ifstream lock(At("new") + "/lock");
  long pid = 0;
  lock >> pid;
  EXPECT_EQ(pid, ::getpid());
}

TEST_F(StateDirectoryTest, ASecondDaemonIsRefusedWithThePidOfTheFirst) {
  const auto first = StateDirectory::Open(At("state"));
  ASSERT_TRUE(first);
  const auto second = StateDirectory::Open(At("state"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr("pid " + std::to_string(::getpid())));
}

TEST_F(StateDirectoryTest, TheDirectoryIsFreeWhenItsDaemonHasEnded) {
  ASSERT_TRUE(StateDirectory::Open(At("state")));
  EXPECT_TRUE(StateDirectory::Open(At("state")));
}

TEST_F(StateDirectoryTest, ADirectoryThatOthersMayEnterIsRefused) {
  ASSERT_EQ(::mkdir(At("open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(At("open").c_str(), 0750), 0);
  const auto state = StateDirectory::Open(At("open"));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kPermission);
  EXPECT_THAT(state.error().message, HasSubstr("0750"));
}

TEST_F(StateDirectoryTest, ADirectoryIsOpenedAfterItsHolderHasReleasedIt) {
  auto first = StateDirectory::Open(At("state"));
  ASSERT_TRUE(first) << first.error().message;
  const std::jthread holder(
      [held = std::move(*first)] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  const auto second = StateDirectory::Open(At("state"));
  EXPECT_TRUE(second) << second.error().message;
}

TEST_F(StateDirectoryTest, ADirectoryOfAnotherUidIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  ASSERT_EQ(::mkdir(At("theirs").c_str(), 0700), 0);
  ASSERT_EQ(::chown(At("theirs").c_str(), 12345, 12345), 0);
  const auto state = StateDirectory::Open(At("theirs"));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kPermission);
  EXPECT_THAT(state.error().message, HasSubstr("12345"));
}

TEST_F(StateDirectoryTest, ASymbolicLinkIsRefused) {
  ASSERT_EQ(::mkdir(At("real").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(At("real").c_str(), At("link").c_str()), 0);
  const auto state = StateDirectory::Open(At("link"));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kInvalidArgument);
}

TEST_F(StateDirectoryTest, AFileIsRefused) {
  std::ofstream(At("file")) << "x";
  const auto state = StateDirectory::Open(At("file"));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kInvalidArgument);
}

TEST_F(StateDirectoryTest, AMissingParentIsNamed) {
  const auto state = StateDirectory::Open(At("none/below"));
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::kIo);
  EXPECT_THAT(state.error().message, HasSubstr("none/below"));
}

TEST_F(StateDirectoryTest, ALockThatIsALinkIsNotFollowed) {
  ASSERT_EQ(::mkdir(At("state").c_str(), 0700), 0);
  std::ofstream(At("precious")) << "precious";
  ASSERT_EQ(::symlink(At("precious").c_str(), (At("state") + "/lock").c_str()), 0);
  EXPECT_FALSE(StateDirectory::Open(At("state")));
  EXPECT_EQ(std::filesystem::file_size(At("precious")), 8u);
}

TEST_F(StateDirectoryTest, DaemonsOfTwoNamesHaveTwoDefaultDirectories) {
  ::setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
  ::setenv("TMPDIR", root_.c_str(), 1);
  const auto first = StateDirectory::OpenDefault("one", 0);
  const auto second = StateDirectory::OpenDefault("two", 0);
  const auto again = StateDirectory::OpenDefault("one", 0);
  ::unsetenv("XDG_RUNTIME_DIR");
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(second);
  EXPECT_FALSE(again);
}

TEST_F(StateDirectoryTest, TheDefaultDirectoryIsTheOneWithEarlierState) {
  const std::string name = "kept-" + std::to_string(::getpid());
  ::setenv("XDG_RUNTIME_DIR", (root_ + "/missing").c_str(), 1);
  ::setenv("TMPDIR", root_.c_str(), 1);
  // The daemon prefers /dev/shm, but an earlier daemon's state is in the last default place.
  const std::string kept = root_ + "/kvd-" + std::to_string(::geteuid()) + "-state/" + name;
  std::filesystem::create_directories(kept);
  for (const std::string& made : {std::filesystem::path(kept).parent_path().string(), kept}) {
    ASSERT_EQ(::chmod(made.c_str(), 0700), 0);
  }
  std::ofstream(kept + "/meta") << "x";
  {
    const auto state = StateDirectory::OpenDefault(name, 0);
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_EQ(state->path(), kept);
    EXPECT_EQ(StateDirectory::Forget(std::nullopt, name).error().code, Code::kBusy);
  }
  const auto forgotten = StateDirectory::Forget(std::nullopt, name);
  const auto again = StateDirectory::Forget(std::nullopt, name);
  ::unsetenv("XDG_RUNTIME_DIR");
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(forgotten) << forgotten.error().message;
  ASSERT_EQ(forgotten->removed.size(), 1u);
  EXPECT_EQ(forgotten->removed[0].path, kept);
  EXPECT_FALSE(std::filesystem::exists(kept + "/meta"));
  EXPECT_TRUE(again && again->removed.empty());
}

// The default places are in root_, which is the only one on a disk.
class ModelFoldersTest : public StateDirectoryTest {
 protected:
  void SetUp() override {
    StateDirectoryTest::SetUp();
    ::setenv("XDG_RUNTIME_DIR", (root_ + "/missing").c_str(), 1);
    ::setenv("TMPDIR", root_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("TMPDIR");
    StateDirectoryTest::TearDown();
  }
  static std::string Name() { return "models-" + std::to_string(::getpid()); }
  static Result<StateDirectory> Open() { return StateDirectory::OpenDefault(Name(), 1ull << 62); }
  // Leaves a state in the model's folder and returns the folder's path.
  static std::string Leave(const std::string& model) {
    Result<StateDirectory> state = Open();
    EXPECT_TRUE(state && state->EnterModel(model));
    std::ofstream(state->path() + "/meta") << "x";
    std::ofstream(state->path() + "/pool") << "x";
    return state->path();
  }
  static constexpr const char* kFirst = "m-0123456789abcdef";
  static constexpr const char* kSecond = "m-00000000000000ff";
};

TEST_F(ModelFoldersTest, EachModelHasItsStateUnderOneLock) {
  const std::string first = Leave(kFirst);
  const std::string second = Leave(kSecond);
  EXPECT_NE(first, second);
  EXPECT_EQ(Leave(kFirst), first);
  const auto held = Open();
  ASSERT_TRUE(held);
  EXPECT_EQ(Open().error().code, Code::kBusy) << "the lock belongs to the name";
  const std::vector<StoredState> states = StateDirectory::FindStates(Name());
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].model_id, kSecond);
  EXPECT_EQ(states[1].path, first);
  EXPECT_GT(states[1].bytes, 0u);
}

TEST_F(ModelFoldersTest, AStateOfAnEarlierVersionStaysWhereItIs) {
  const std::string path = Open()->path();
  std::ofstream(path + "/meta") << "x";
  std::ofstream(path + "/pool") << "x";
  Leave(kFirst);
  EXPECT_TRUE(std::filesystem::exists(path + "/pool"));
  const std::vector<StoredState> states = StateDirectory::FindStates(Name());
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0].model_id, "");
  EXPECT_EQ(states[0].path, path);
}

TEST_F(ModelFoldersTest, ForgettingNamesTheStatesAndRemovesOneOrAll) {
  const std::string first = Leave(kFirst);
  const std::string second = Leave(kSecond);
  const auto unknown = StateDirectory::Forget(std::nullopt, Name(), "other");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr(first));
  EXPECT_THAT(unknown.error().message, HasSubstr(second));
  const auto one = StateDirectory::Forget(std::nullopt, Name(), kFirst);
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_EQ(one->removed.size(), 1u);
  EXPECT_THAT(one->removed[0].text(), HasSubstr(first));
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_TRUE(std::filesystem::exists(second + "/meta"));
  const auto all = StateDirectory::Forget(std::nullopt, Name());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->removed.size(), 1u);
  EXPECT_EQ(all->removed[0].model_id, kSecond);
}

TEST_F(ModelFoldersTest, ADirectoryThatIsGivenHoldsTheStateItself) {
  auto state = StateDirectory::Open(At("given"));
  ASSERT_TRUE(state && state->EnterModel(kFirst));
  EXPECT_EQ(state->path(), At("given"));
}

TEST_F(ModelFoldersTest, AModelsFolderThatIsALinkIsRefused) {
  auto state = Open();
  ASSERT_EQ(::symlink("/tmp", (state->path() + "/" + kFirst).c_str()), 0);
  EXPECT_EQ(state->EnterModel(kFirst).error().code, Code::kInvalidArgument);
}

TEST_F(ModelFoldersTest, AModelsNameIsSixteenDigits) {
  const std::array<std::uint64_t, 4> words = {1, 2, 4, 0xf000000000000000};
  EXPECT_EQ(StateDirectory::ModelId(words), "m-f000000000000007");
}

// The default places are below root_, and the process has no runtime directory (XDG_RUNTIME_DIR).
class SharedPlaceTest : public StateDirectoryTest {
 protected:
  static constexpr uid_t kOther = 12345;

  void SetUp() override {
    StateDirectoryTest::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
    ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
    ::setenv("XDG_RUNTIME_DIR", (root_ + "/missing").c_str(), 1);
    ::setenv("TMPDIR", root_.c_str(), 1);
    // Open() asks for more room than any tmpfs has, so that /dev/shm is not used.
    taken_ = StatePlaces().back().root + "/" + StatePlaces().back().stem;
  }
  void TearDown() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    ::unsetenv("TMPDIR");
    StateDirectoryTest::TearDown();
  }
  static Result<StateDirectory> Open() { return StateDirectory::OpenDefault(Name(), kNoTmpfsHas); }
  static std::string Name() { return "shared-" + std::to_string(::getpid()); }
  // Creates the directory of the default place, the daemon's directory in it and a state file, all
  // owned by `uid`.
  void TakeName(uid_t uid) const {
    const std::string daemon = taken_ + "/" + Name();
    std::filesystem::create_directories(daemon);
    std::ofstream(daemon + "/meta") << "x";
    for (const std::string& path : {taken_, daemon, daemon + "/meta"}) {
      ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
      ASSERT_EQ(::chown(path.c_str(), uid, uid), 0);
    }
  }

  static constexpr std::uint64_t kNoTmpfsHas = 1ull << 62;
  std::string taken_;
};

TEST_F(SharedPlaceTest, ADirectoryThatAnotherUserMadeFirstDoesNotStopTheDaemon) {
  TakeName(kOther);
  const auto state = Open();
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_TRUE(state->path().starts_with(taken_ + "-")) << state->path();
  struct stat found{};
  ASSERT_EQ(::stat(std::filesystem::path(state->path()).parent_path().c_str(), &found), 0);
  EXPECT_EQ(found.st_uid, ::geteuid());
  EXPECT_EQ(found.st_mode & 07777u, 0700u);
  EXPECT_THAT(state->passed_over(),
              ::testing::Contains(HasSubstr(taken_ + ": belongs to uid 12345, not to ours (0)")));
  EXPECT_TRUE(std::filesystem::exists(taken_ + "/" + Name() + "/meta"));
}

TEST_F(SharedPlaceTest, TheNextDaemonFindsTheDirectoryThatTheFirstOneMadeInstead) {
  TakeName(kOther);
  std::string path;
  {
    const auto first = Open();
    ASSERT_TRUE(first) << first.error().message;
    path = first->path();
    EXPECT_EQ(Open().error().code, Code::kBusy) << "two daemons of one name";
  }
  std::ofstream(path + "/meta") << "x";
  EXPECT_EQ(Open()->path(), path);
  // The default place is free again, but the daemon keeps using the place that holds its state.
  std::filesystem::remove_all(taken_);
  EXPECT_EQ(Open()->path(), path);
}

TEST_F(SharedPlaceTest, AFileALinkAndADirectoryWithAnOpenModeAreNotUsed) {
  std::ofstream(taken_) << "x";
  EXPECT_TRUE(Open()->path().starts_with(taken_ + "-"));
  std::filesystem::remove_all(taken_);
  ASSERT_EQ(::symlink("/etc", taken_.c_str()), 0);
  EXPECT_TRUE(Open()->path().starts_with(taken_ + "-"));
  std::filesystem::remove_all(taken_);
  TakeName(::geteuid());
  ASSERT_EQ(::chmod(taken_.c_str(), 0755), 0);
  const auto state = Open();
  EXPECT_TRUE(state->path().starts_with(taken_ + "-"));
  EXPECT_THAT(state->passed_over(), ::testing::Contains(HasSubstr("mode 0755 lets others in")));
}

TEST_F(SharedPlaceTest, DirectoriesWithOurNameAndOtherContentAreNotUsed) {
  TakeName(kOther);
  const std::string imitated = taken_ + "-0123456789abcdef";
  ASSERT_EQ(::mkdir(imitated.c_str(), 0700), 0);
  ASSERT_EQ(::chown(imitated.c_str(), kOther, kOther), 0);
  const std::string not_a_suffix = taken_ + "-0123456789abcdeX";
  ASSERT_EQ(::mkdir(not_a_suffix.c_str(), 0700), 0);
  const auto state = Open();
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_FALSE(state->path().starts_with(imitated));
  EXPECT_FALSE(state->path().starts_with(not_a_suffix));
}

TEST_F(SharedPlaceTest, ForgettingRemovesOurStateAndNamesDirectoriesOfOthers) {
  TakeName(kOther);
  const std::string path = Open()->path();
  std::ofstream(path + "/meta") << "x";
  const auto forgotten = StateDirectory::Forget(std::nullopt, Name());
  ASSERT_TRUE(forgotten) << forgotten.error().message;
  ASSERT_EQ(forgotten->removed.size(), 1u);
  EXPECT_EQ(forgotten->removed[0].path, path);
  EXPECT_THAT(forgotten->passed_over, ::testing::Contains(HasSubstr("belongs to uid 12345")));
  EXPECT_FALSE(std::filesystem::exists(path + "/meta"));
  EXPECT_TRUE(std::filesystem::exists(taken_ + "/" + Name() + "/meta"));
}

TEST_F(StateDirectoryTest, ForgettingAbsentStateCreatesNoDirectory) {
  const auto forgotten = StateDirectory::Forget(At("none"), "x");
  ASSERT_TRUE(forgotten);
  EXPECT_TRUE(forgotten->removed.empty());
  EXPECT_FALSE(std::filesystem::exists(At("none")));
}

TEST_F(StateDirectoryTest, RemovingTheStateLeavesTheLockAndThenNothing) {
  auto state = StateDirectory::Open(At("state"));
  ASSERT_TRUE(state);
  std::ofstream(At("state") + "/pool") << "x";
  std::ofstream(At("state") + "/meta") << "x";
  EXPECT_TRUE(state->RemoveState());
  EXPECT_FALSE(state->RemoveState());
  EXPECT_FALSE(std::filesystem::exists(At("state") + "/pool"));
  EXPECT_FALSE(std::filesystem::exists(At("state") + "/meta"));
  EXPECT_TRUE(std::filesystem::exists(At("state") + "/lock"));
  state->RemoveDirectory();
  EXPECT_TRUE(std::filesystem::is_empty(At("state"))) << "the user's own directory stays";
}

TEST_F(StateDirectoryTest, RemovingTheStateLeavesWhatIsKeptAside) {
  auto state = StateDirectory::Open(At("state"));
  ASSERT_TRUE(state);
  for (const char* const file : {"/pool.2", "/pool.2-g1", "/meta", "/meta.bad", "/pool"}) {
    std::ofstream(At("state") + file) << "x";
  }
  EXPECT_TRUE(state->RemoveState());
  EXPECT_TRUE(std::filesystem::exists(At("state") + "/meta.bad"));
  EXPECT_TRUE(std::filesystem::exists(At("state") + "/pool"));
  EXPECT_FALSE(std::filesystem::exists(At("state") + "/pool.2"));
  EXPECT_FALSE(std::filesystem::exists(At("state") + "/pool.2-g1"));
}

TEST_F(StateDirectoryTest, ForgettingInADefaultPlaceLeavesNeitherLockNorDirectory) {
  const std::string name = "forgotten-" + std::to_string(::getpid());
  ::setenv("XDG_RUNTIME_DIR", (root_ + "/missing").c_str(), 1);
  ::setenv("TMPDIR", root_.c_str(), 1);
  std::string path;
  {
    const auto state = StateDirectory::OpenDefault(name, std::uint64_t{1} << 62);
    ASSERT_TRUE(state) << state.error().message;
    path = state->path();
    std::ofstream(path + "/meta") << "x";
  }
  const auto forgotten = StateDirectory::Forget(std::nullopt, name);
  ::unsetenv("XDG_RUNTIME_DIR");
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(forgotten) << forgotten.error().message;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(StateDirectoryTest, DaemonsOfTwoRuntimeDirectoriesHaveTwoStates) {
  const std::string name = "two-" + std::to_string(::getpid());
  ::setenv("TMPDIR", root_.c_str(), 1);
  std::vector<std::string> paths;
  for (const char* const runtime : {"one", "another", "one"}) {
    ::setenv("XDG_RUNTIME_DIR", At(runtime).c_str(), 1);
    const auto state = StateDirectory::OpenDefault(name, std::uint64_t{1} << 62);
    ASSERT_TRUE(state) << state.error().message;
    ASSERT_TRUE(WriteStateNote(state->descriptor(), {.daemon = name, .model = "m"}));
    std::ofstream(state->path() + "/meta") << "x";
    paths.push_back(state->path());
  }
  ::unsetenv("XDG_RUNTIME_DIR");
  ::unsetenv("TMPDIR");
  EXPECT_NE(paths[0], paths[1]);
  EXPECT_EQ(paths[0], paths[2]);
}

TEST_F(StateDirectoryTest, ADaemonThatWaitsForARemovedLockTakesTheNextOne) {
  auto first = StateDirectory::Open(At("state"));
  ASSERT_TRUE(first) << first.error().message;
  std::jthread holder([held = std::move(*first)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.RemoveDirectory();
  });
  const auto second = StateDirectory::Open(At("state"));
  ASSERT_TRUE(second) << second.error().message;
  holder.join();
  const auto third = StateDirectory::Open(At("state"));
  ASSERT_FALSE(third) << "the second holds the lock that the path names";
  EXPECT_EQ(third.error().code, Code::kBusy);
}

}  // namespace
}  // namespace kvd
