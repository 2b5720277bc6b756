// Runs the tests of tests/http/clients, in which clients of the npm registry talk to kvd-http: the
// packages of OpenAI, Anthropic, Vercel and LangChain. `make bootstrap-web` installs Node and the
// packages, and completes an installation that was interrupted; without them the tests are skipped.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/other_programs.h"

namespace kvd {
namespace {

constexpr const char* kFolder = "tests/http/clients";

class HttpClientsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HttpClientsTest, TestsWithPublishedClientsPass) {
  std::string missing = test::MissingProgram("node");
  if (missing.empty()) missing = test::MissingNpmPackage(kFolder);
  if (!missing.empty()) GTEST_SKIP() << missing;
  const auto [status, output] = test::RunCommand(std::string("cd ") + kFolder + " && node --test " +
                                                 GetParam() + ".test.mjs");
  EXPECT_EQ(status, 0) << output;
}

INSTANTIATE_TEST_SUITE_P(Clients, HttpClientsTest,
                         ::testing::Values("openai", "anthropic", "frameworks"));

}  // namespace
}  // namespace kvd
