// Tests kvd-demo as a user runs it: its exit status and output, and that it leaves no files.
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/test_scale.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

struct Ended {
  int status = -1;
  std::string text;
};

class DemonstrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-shown-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    // The daemon's directory, socket and state are created in this folder.
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "something was left in " << folder_;
    std::filesystem::remove_all(folder_);
  }
  Ended Demonstrate(const std::string& arguments) {
    const std::string command =
        "TMPDIR=" + folder_ + " " + BinaryFolder() + "/kvd-demo " + arguments + " 2>&1";
    Ended ended;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return ended;
    std::array<char, 4096> buffer;
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
      ended.text.append(buffer.data(), got);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
    return ended;
  }

  std::string folder_;
};

// The number of notebooks. Sanitizer builds, which set KVD_TEST_SCALE below 1, use fewer notebooks.
std::size_t SeedCount() { return test::IsScaledDown() ? 5 : 20; }

std::size_t CountOf(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// The parameter is the kvd-demo argument that selects the model.
class EveryBundledModelTest : public DemonstrationTest,
                              public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryBundledModelTest, NineOfTenAnswersAreRightAndKilledProcessesFreeEverything) {
  const std::size_t seeds = SeedCount();
  const std::size_t asked = 8 * seeds;  // 160 questions for 20 seeds
  const Ended ended = Demonstrate("--seed 1 --seeds " + std::to_string(seeds) + GetParam());
  ASSERT_EQ(ended.status, 0) << ended.text;
  const std::size_t line = ended.text.rfind('\n', ended.text.size() - 2) + 1;
  std::size_t right = 0, of = 0;
  ASSERT_EQ(std::sscanf(ended.text.c_str() + line, "%zu of %zu answers right", &right, &of), 2)
      << ended.text;
  EXPECT_EQ(of, asked);
  EXPECT_GE(right * 10, asked * 9) << ended.text;  // at least 144 of 160
  EXPECT_EQ(CountOf("was killed (SIGKILL)", ended.text), seeds);
  EXPECT_EQ(CountOf("checked: ", ended.text), seeds) << "every token computed is accounted for";
}

INSTANTIATE_TEST_SUITE_P(Models, EveryBundledModelTest, ::testing::Values("", " --model hybrid"),
                         [](const auto& named) {
                           return std::string(named.param).empty() ? "plain" : "hybrid";
                         });

TEST_F(DemonstrationTest, AMissingDaemonExitsWithOneAndIsNamed) {
  const Ended ended = Demonstrate("--kvd " + folder_ + "/no-kvd-here");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.text, HasSubstr("kvd-demo: kvd ended while it started"));
}

TEST_F(DemonstrationTest, AMissingModelExitsWithOneAndIsNamed) {
  const Ended ended = Demonstrate("--model " + folder_ + "/none.gguf");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.text, HasSubstr("none.gguf"));
}

TEST_F(DemonstrationTest, AWrongFlagExitsWithTwo) {
  EXPECT_EQ(Demonstrate("--sedes 20").status, 2);
  EXPECT_EQ(Demonstrate("--seeds 0").status, 2);
}

}  // namespace
}  // namespace kvd
