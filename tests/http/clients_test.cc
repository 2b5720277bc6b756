// Runs the tests of tests/http/clients, in which clients of the npm registry talk to kvd-http: the
// packages of OpenAI, Anthropic, Vercel and LangChain. `tools/bootstrap --web` installs Node and
// the packages; without them the tests are skipped.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace kvd {
namespace {

constexpr const char* kFolder = "tests/http/clients";

// Runs a shell command, and returns its exit status and what it has printed.
std::pair<int, std::string> RunCommand(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::string output;
  std::array<char, 4096> portion{};
  while (const std::size_t count = std::fread(portion.data(), 1, portion.size(), pipe)) {
    output.append(portion.data(), count);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

class HttpClientsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HttpClientsTest, TheClientsTestsPass) {
  if (RunCommand("node --version").first != 0)
    GTEST_SKIP() << "node is missing: tools/bootstrap --web";
  if (!std::filesystem::exists(std::string(kFolder) + "/node_modules")) {
    GTEST_SKIP() << "npm packages are missing: tools/bootstrap --web";
  }
  const auto [status, output] =
      RunCommand(std::string("cd ") + kFolder + " && node --test " + GetParam() + ".test.mjs");
  EXPECT_EQ(status, 0) << output;
}

INSTANTIATE_TEST_SUITE_P(Clients, HttpClientsTest,
                         ::testing::Values("openai", "anthropic", "frameworks"));

}  // namespace
}  // namespace kvd
