// The programs in examples/ do what README.md describes.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;

class ExamplesTest : public test::ServedDaemonTest {
 protected:
  // Runs a shell command with the daemon's socket in KVD_SOCKET. Returns standard output and error.
  std::string Run(const std::string& command, int* exit_code) const {
    const std::string line =
        "KVD_SOCKET=" + socket_path() + " PATH=" + BinaryFolder() + ":$PATH " + command + " 2>&1";
    std::string text;
    std::FILE* const pipe = ::popen(line.c_str(), "r");
    if (pipe == nullptr) return "popen failed";
    std::array<char, 4096> buffer;
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      text.append(buffer.data(), got);
    }
    const int status = ::pclose(pipe);
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
  }
};

constexpr const char* kFacts =
    "'<|system|>Answer from the notebook. The kite is green, kept by Felix in the harbour. The "
    "drum "
    "is red, kept by Tom in the mill.<|end|>'";

TEST_F(ExamplesTest, ForkAnswersEachQuestionFromThePublishedContext) {
  int exit_code = -1;
  (void)Run(std::string("kvctl run -n 0 --keep notebook ") + kFacts, &exit_code);
  ASSERT_EQ(exit_code, 0);
  const std::string text =
      Run("kvd-example-fork notebook '<|user|>Where is the kite?<|end|><|assistant|>' "
          "'<|user|>Who keeps the drum?<|end|><|assistant|>'",
          &exit_code);
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, HasSubstr("harbour"));
  EXPECT_THAT(text, HasSubstr("Tom"));
  EXPECT_THAT(Run("kvd-example-fork no-such-name x", &exit_code), HasSubstr("not_found"));
  EXPECT_EQ(exit_code, 1);
}

TEST_F(ExamplesTest, TheProgramInCppAnswersEachQuestionInAFork) {
  int exit_code = -1;
  const std::string text =
      Run("kvd-example-fork-cc 'Answer from the notebook. The kite is green, kept by Felix in the "
          "harbour.' 'Where is the kite?' 'What colour is the kite?'",
          &exit_code);
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, HasSubstr("harbour"));
  EXPECT_THAT(text, HasSubstr("green"));
}

TEST_F(ExamplesTest, AgentsAnswerAtTheSameTimeInForksOfOneContext) {
  int exit_code = -1;
  const std::string text = Run(
      std::string("kvd-example-agents ") + kFacts + " 'Where is the kite?' 'Who keeps the drum?'",
      &exit_code);
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, HasSubstr("harbour"));
  EXPECT_THAT(text, HasSubstr("Tom"));
}

TEST_F(ExamplesTest, TheShellScriptAsksBothQuestions) {
  int exit_code = -1;
  const std::string text = Run("examples/notebook.sh", &exit_code);
  EXPECT_EQ(exit_code, 0) << text;
  EXPECT_THAT(text, HasSubstr("harbour"));
  EXPECT_THAT(text, HasSubstr("Tom"));
}

}  // namespace
}  // namespace kvd
