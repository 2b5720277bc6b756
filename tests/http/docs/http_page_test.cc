// Runs the examples of docs/http.md against kvd-http with the bundled model, and compares the
// replies with those of the page.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/docs/page_examples.h"
#include "tests/http/program/gateway_process.h"
#include "tests/support/other_programs.h"

namespace kvd::http::test::http_page_test {
namespace {

constexpr std::string_view kPageServer = "localhost:8080";
constexpr std::string_view kPageFolder = "/tmp/slots";
constexpr std::string_view kPageId = "resp_...";

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string OutputOf(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             ::pclose);
  std::string output;
  char bytes[4096];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, pipe.get())) {
    output.append(bytes, count);
  }
  return output;
}

// The first id of a stored response; empty: none.
std::string ResponseIdIn(const std::string& reply) {
  constexpr std::size_t kIdBytes = 5 + 32;
  const std::size_t at = reply.find("\"resp_");
  return at == std::string::npos ? std::string() : reply.substr(at + 1, kIdBytes);
}

std::vector<std::string> FlagsIn(const PageExample& example, const std::string& folder) {
  std::vector<std::string> flags = example.server_flags;
  for (std::string& flag : flags) ReplaceAll(flag, kPageFolder, folder);
  return flags;
}

TEST(PageExamplesTest, ThreeDotsStandForAnyBytes) {
  EXPECT_TRUE(Matches(R"({"a":1})"
                      "\n",
                      R"({"a":1})"));
  EXPECT_TRUE(Matches(R"({"a":1,"b":2,"c":3})", R"({"a":...,"c":3})"));
  EXPECT_TRUE(Matches("one two", "...two..."));
  EXPECT_FALSE(Matches(R"({"a":1,"b":2})", R"({"b":...})"));
  EXPECT_FALSE(Matches(R"({"a":1,"b":2})", R"({"a":...,"b":3})"));
}

TEST(PageExamplesTest, ReadsCommandsWithTheirServersAndReplies) {
  const auto examples = ReadExamples(
      "```sh server\nkvd-http --temp 0\n```\ntext\n```sh\ncurl x\n```\n```json\n{\n  "
      "\"a\":1}\n```\n"
      "```sh\nls\n```\n");
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(examples[0].server_flags, (std::vector<std::string>{"--temp", "0"}));
  EXPECT_EQ(examples[0].command, "curl x\n");
  EXPECT_EQ(examples[0].reply, "{\"a\":1}");
  EXPECT_EQ(examples[0].line, 6u);
}

TEST(HttpPageTest, EveryExampleGetsTheReplyThatThePageShows) {
  if (const std::string missing = kvd::test::MissingProgram("curl"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  std::ifstream file("docs/http.md", std::ios::binary);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::vector<PageExample> examples = ReadExamples(page);
  ASSERT_GE(examples.size(), 30u);
  const kvd::test::TemporaryFolder folder;
  const std::string slots = folder.path().string() + "/slots";
  std::filesystem::create_directory(slots);
  std::unique_ptr<GatewayProcess> gateway;
  std::vector<std::string> flags;
  std::string response_id;
  for (const PageExample& example : examples) {
    ASSERT_FALSE(example.server_flags.empty()) << "line " << example.line << ": no server";
    if (!gateway || flags != example.server_flags) {
      gateway.reset();
      flags = example.server_flags;
      gateway = std::make_unique<GatewayProcess>(folder.path(), FlagsIn(example, slots));
      ASSERT_TRUE(gateway->WaitUntilReady()) << gateway->error_text();
    }
    std::string command = example.command;
    ReplaceAll(command, kPageServer, "127.0.0.1:" + std::to_string(gateway->port()));
    ReplaceAll(command, kPageId, response_id);
    const std::string reply = OutputOf(command);
    EXPECT_TRUE(Matches(reply, example.reply)) << "docs/http.md:" << example.line << "\n"
                                               << command << "replied\n"
                                               << reply << "\nthe page shows\n"
                                               << example.reply;
    if (const std::string id = ResponseIdIn(reply); !id.empty()) response_id = id;
  }
}

}  // namespace
}  // namespace kvd::http::test::http_page_test
