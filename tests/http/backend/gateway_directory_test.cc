#include "http/backend/gateway_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/e2e/support/temporary_folder.h"

namespace kvd::http {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

class GatewayDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_STATE_HOME", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("XDG_STATE_HOME"); }
  std::string Path(const std::string& name) const { return folder_.path() / name; }

  kvd::test::TemporaryFolder folder_;
};

TEST_F(GatewayDirectoryTest, TheDirectoryIsClosedToOthers) {
  const auto directory = GatewayDirectory::Open("", "name");
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_EQ(directory->path(), Path("kvd-http/name"));
  EXPECT_EQ(ModeOf(directory->path()), 0700u);
  EXPECT_EQ(directory->PathOf("file"), Path("kvd-http/name/file"));
}

TEST_F(GatewayDirectoryTest, ASecondProcessHasADirectoryOfItsOwn) {
  const auto first = GatewayDirectory::Open("", "name");
  {
    const auto second = GatewayDirectory::Open("", "name");
    ASSERT_TRUE(first && second);
    EXPECT_EQ(second->path(), Path("kvd-http/name.2"));
  }
  EXPECT_EQ(GatewayDirectory::Open("", "name")->path(), Path("kvd-http/name.2"));
}

TEST_F(GatewayDirectoryTest, ANamedDirectoryBelongsToOneProcess) {
  const auto first = GatewayDirectory::Open(Path("a/b/"), "name");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->path(), Path("a/b"));
  const auto second = GatewayDirectory::Open(Path("a/b"), "name");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
}

TEST_F(GatewayDirectoryTest, RefusesADirectoryThatOthersCanRead) {
  ASSERT_EQ(::mkdir(Path("open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(Path("open").c_str(), 0755), 0);
  const auto directory = GatewayDirectory::Open(Path("open"), "name");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Code::kPermission);
}

TEST_F(GatewayDirectoryTest, ReplacesAFileAsAWhole) {
  ASSERT_TRUE(ReplaceFile(Path("file"), "first"));
  ASSERT_TRUE(ReplaceFile(Path("file"), "second"));
  EXPECT_EQ(ModeOf(Path("file")), 0600u);
  std::ifstream file(Path("file"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "second");
  EXPECT_FALSE(ReplaceFile(Path("missing/file"), "text"));
}

TEST_F(GatewayDirectoryTest, TheSessionStoreDropsLinesThatCannotBeRead) {
  std::ofstream(Path("sessions")) << "http-1 - 00112233445566778899aabbccddeeff\n"
                                  << "http-1 alice 0\n"
                                  << "../x bob 00112233445566778899aabbccddeeff\n\n"
                                  << "http-1 carol 00112233445566778899aabbccddeeff\n";
  Loop loop;
  SessionStore store(loop, Path("sessions"));
  EXPECT_EQ(store.size(), 2u);
  store.Forget("other");
  EXPECT_EQ(store.size(), 2u);
  store.Forget("http-1");
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(SessionStore(loop, Path("sessions")).size(), 0u);
}

}  // namespace
}  // namespace kvd::http
