// The life of kvd-http and of the daemon that it starts, with the real programs.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "http/backend/tenants.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/program/gateway_process.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::http::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHello = R"({"content":"hello"})";

class ProgramTest : public ::testing::Test {
 protected:
  std::string folder() const { return folder_.path(); }
  // The text of the sessions' file of the only gateway.
  std::string Sessions() const {
    for (const auto& entry : fs::directory_iterator(folder() + "/kvd-http")) {
      std::ifstream file(entry.path() / "sessions");
      return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    return "";
  }
  bool HasState() const { return fs::exists(folder() + "/daemon-state/meta"); }

  kvd::test::TemporaryFolder folder_;
};

TEST_F(ProgramTest, StartsADaemonAndStopsItAtAnOrderlyEnd) {
  for (const int number : {SIGTERM, SIGINT}) {
    GatewayProcess gateway(folder(), {});
    ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
    EXPECT_EQ(gateway.Post("/tokenize", kHello).status, 200);
    const pid_t daemon = gateway.daemon_pid();
    EXPECT_TRUE(IsAlive(daemon));
    gateway.Signal(number);
    EXPECT_EQ(gateway.Wait(), 0) << gateway.error_text();
    EXPECT_FALSE(IsAlive(daemon));
    EXPECT_FALSE(HasState());
    EXPECT_EQ(Sessions(), "");
  }
}

TEST_F(ProgramTest, KeepsTheStateOnRequest) {
  GatewayProcess gateway(folder(), {"--keep-state"});
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  EXPECT_EQ(gateway.Post("/tokenize", kHello).status, 200);
  const std::string sessions = Sessions();
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(), 0);
  EXPECT_TRUE(HasState());
  GatewayProcess next(folder(), {"--keep-state"});
  ASSERT_TRUE(next.WaitUntilReady()) << next.error_text();
  EXPECT_EQ(next.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(Sessions(), sessions);
}

TEST_F(ProgramTest, TheNextGatewayAdoptsTheDaemonOfAKilledOne) {
  pid_t daemon = -1;
  std::string sessions;
  GatewayProcess killed(folder(), {});
  ASSERT_TRUE(killed.WaitUntilReady()) << killed.error_text();
  EXPECT_EQ(killed.Post("/tokenize", kHello).status, 200);
  daemon = killed.daemon_pid();
  sessions = Sessions();
  EXPECT_NE(sessions, "");
  killed.Signal(SIGKILL);
  EXPECT_EQ(killed.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(IsAlive(daemon));
  GatewayProcess next(folder(), {});
  ASSERT_TRUE(next.WaitUntilReady()) << next.error_text();
  EXPECT_EQ(next.daemon_pid(), daemon);
  EXPECT_EQ(next.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(Sessions(), sessions);
  next.Signal(SIGTERM);
  EXPECT_EQ(next.Wait(), 0);
  EXPECT_FALSE(IsAlive(daemon));
}

TEST_F(ProgramTest, StartsAKilledDaemonAgainAndResumesTheSession) {
  GatewayProcess gateway(folder(), {});
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  EXPECT_EQ(gateway.Post("/tokenize", kHello).status, 200);
  const std::string sessions = Sessions();
  ::kill(gateway.daemon_pid(), SIGKILL);
  ASSERT_TRUE(gateway.WaitForText("starting it again"));
  EXPECT_EQ(gateway.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(Sessions(), sessions);
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(), 0);
}

TEST_F(ProgramTest, ResumesTheSessionWhenBothWereKilled) {
  std::string sessions;
  {
    GatewayProcess killed(folder(), {});
    ASSERT_TRUE(killed.WaitUntilReady()) << killed.error_text();
    EXPECT_EQ(killed.Post("/tokenize", kHello).status, 200);
    sessions = Sessions();
    // The destructor kills both.
  }
  EXPECT_TRUE(HasState());
  GatewayProcess next(folder(), {});
  ASSERT_TRUE(next.WaitUntilReady()) << next.error_text();
  EXPECT_EQ(next.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(Sessions(), sessions);
}

TEST_F(ProgramTest, TheLastOfTwoGatewaysStopsTheDaemon) {
  GatewayProcess first(folder(), {});
  ASSERT_TRUE(first.WaitUntilReady()) << first.error_text();
  GatewayProcess second(folder(), {});
  ASSERT_TRUE(second.WaitUntilReady()) << second.error_text();
  const pid_t daemon = first.daemon_pid();
  EXPECT_EQ(second.daemon_pid(), daemon);
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
  EXPECT_TRUE(IsAlive(daemon));
  EXPECT_EQ(second.Post("/tokenize", kHello).status, 200);
  second.Signal(SIGTERM);
  EXPECT_EQ(second.Wait(), 0);
  EXPECT_FALSE(IsAlive(daemon));
}

TEST_F(ProgramTest, AnotherSizeKeepsTheStateAndTheSessions) {
  std::string sessions;
  {
    GatewayProcess first(folder(), {"--keep-state", "-c", "512", "-np", "1"});
    ASSERT_TRUE(first.WaitUntilReady()) << first.error_text();
    EXPECT_EQ(first.Post("/tokenize", kHello).status, 200);
    sessions = Sessions();
    first.Signal(SIGTERM);
    EXPECT_EQ(first.Wait(), 0);
  }
  GatewayProcess second(folder(), {"--keep-state", "-c", "2048", "-np", "2", "-t", "1"});
  ASSERT_TRUE(second.WaitUntilReady()) << second.error_text();
  EXPECT_EQ(second.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(Sessions(), sessions);
}

TEST_F(ProgramTest, ADaemonThatAKilledGatewayLeftGetsTheSizesOfTheNextOne) {
  GatewayProcess killed(folder(), {"-c", "512", "-np", "1"});
  ASSERT_TRUE(killed.WaitUntilReady()) << killed.error_text();
  EXPECT_EQ(killed.Post("/tokenize", kHello).status, 200);
  const std::string sessions = Sessions();
  const pid_t daemon = killed.daemon_pid();
  killed.Signal(SIGKILL);
  (void)killed.Wait();
  GatewayProcess next(folder(), {"-c", "2048", "-np", "2"});
  ASSERT_TRUE(next.WaitUntilReady()) << next.error_text();
  EXPECT_NE(next.daemon_pid(), daemon);
  EXPECT_FALSE(IsAlive(daemon));
  EXPECT_EQ(next.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(Sessions(), sessions);
}

TEST_F(ProgramTest, ASecondGatewayWithOtherSizesHasItsOwnDaemon) {
  // Each daemon needs a state of its own. A pool has 4,096 cells or more, so the second gateway
  // wants more than a quarter of that.
  GatewayProcess first(folder(), {"-c", "512", "-np", "1"}, false);
  ASSERT_TRUE(first.WaitUntilReady()) << first.error_text();
  GatewayProcess second(folder(), {"-c", "2048", "-np", "2"}, false);
  ASSERT_TRUE(second.WaitUntilReady()) << second.error_text();
  GatewayProcess third(folder(), {"-c", "2048", "-np", "2"}, false);
  ASSERT_TRUE(third.WaitUntilReady()) << third.error_text();
  EXPECT_NE(second.daemon_pid(), first.daemon_pid());
  EXPECT_EQ(third.daemon_pid(), second.daemon_pid());
  EXPECT_TRUE(IsAlive(first.daemon_pid()));
  EXPECT_EQ(first.Post("/tokenize", kHello).status, 200);
  EXPECT_EQ(second.Post("/tokenize", kHello).status, 200);
}

// A daemon with the default name, as a user starts it.
DaemonProcess StartUserDaemon(const std::string& folder, std::vector<std::string> arguments) {
  auto daemon = DaemonProcess::Start(
      {.kvd_path = BinaryFolder() + "/kvd", .arguments = std::move(arguments)});
  EXPECT_TRUE(daemon) << daemon.error().message;
  fs::create_directories(folder + "/run/kvd");
  fs::permissions(folder + "/run/kvd", fs::perms::owner_all);
  fs::create_symlink(daemon->socket_path(), folder + "/run/kvd/default.sock");
  return std::move(*daemon);
}

TEST_F(ProgramTest, UsesTheDaemonOfTheUserAndDoesNotStopIt) {
  const DaemonProcess daemon = StartUserDaemon(folder(), {});
  GatewayProcess gateway(folder(), {"-c", "256"}, false);
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  EXPECT_EQ(gateway.daemon_pid(), -1) << gateway.error_text();
  EXPECT_EQ(gateway.Post("/tokenize", kHello).status, 200);
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(), 0);
  EXPECT_TRUE(IsAlive(daemon.pid()));
}

TEST_F(ProgramTest, StartsADaemonIfThatOfTheUserServesAnotherModel) {
  const std::string model = fs::absolute("models/notebook-1m-hybrid-q8_0.gguf");
  const DaemonProcess daemon = StartUserDaemon(folder(), {"--model", model});
  GatewayProcess gateway(folder(), {"-c", "256"}, false);
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  EXPECT_NE(gateway.daemon_pid(), -1);
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(), 0);
}

TEST_F(ProgramTest, ServesDaemonsByTheirNames) {
  const DaemonProcess daemon = StartUserDaemon(folder(), {});
  GatewayProcess gateway(folder(), {"--daemon", "default=chat"}, false);
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  EXPECT_NE(gateway.Get("/v1/models").body.find("\"chat\""), std::string::npos);
  GatewayProcess missing(folder(), {"--daemon", "missing"}, false);
  EXPECT_EQ(missing.Wait(), 1);
  EXPECT_NE(missing.error_text().find("missing.sock"), std::string::npos) << missing.error_text();
}

TEST_F(ProgramTest, FailsWithTheLastLineOfTheLogOfTheDaemon) {
  GatewayProcess gateway(folder(), {"--model", "README.md"});
  EXPECT_EQ(gateway.Wait(), 1);
  EXPECT_NE(gateway.error_text().find("README.md"), std::string::npos) << gateway.error_text();
}

TEST_F(ProgramTest, RefusesAWrongCommandLine) {
  GatewayProcess gateway(folder(), {"--lora", "x"});
  EXPECT_EQ(gateway.Wait(), 2);
  EXPECT_EQ(gateway.error_text(),
            "kvd-http: --lora: not supported: kvd-http has no LoRA adapters\n");
}

TEST_F(ProgramTest, RefusesAnAddressThatOthersCanReachWithoutAKey) {
  GatewayProcess gateway(folder(), {"--host", "0.0.0.0"});
  EXPECT_EQ(gateway.Wait(), 1);
}

TEST_F(ProgramTest, NamesATrustedProxyThatIsNoNetwork) {
  GatewayProcess gateway(folder(), {"--trusted-proxy", "::1,10.0.0.1/8"});
  EXPECT_EQ(gateway.Wait(), 1);
  EXPECT_NE(gateway.error_text().find("--trusted-proxy: \"10.0.0.1/8\": the address has bits"),
            std::string::npos)
      << gateway.error_text();
}

TEST_F(ProgramTest, ServesAUnixSocket) {
  const std::string path = folder() + "/http.sock";
  GatewayProcess gateway(folder(), {"--host", "unix:" + path});
  ASSERT_TRUE(gateway.WaitForText("ready")) << gateway.error_text();
  RawClient client(path);
  ASSERT_TRUE(client.is_connected());
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
  client.Close();
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(), 0);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ProgramTest, PutsThePrefixBeforeEveryPath) {
  GatewayProcess gateway(folder(), {"--api-prefix", "/llm/"});
  ASSERT_TRUE(gateway.WaitForText("ready")) << gateway.error_text();
  (void)gateway.WaitForText("listening");
  // WaitUntilReady asks for /health, which this gateway does not have.
  const std::string text = gateway.error_text();
  RawClient client(static_cast<std::uint16_t>(
      std::stoi(text.substr(text.find("127.0.0.1:") + std::string("127.0.0.1:").size()))));
  ASSERT_TRUE(client.SendRequest("GET", "/llm/health"));
  EXPECT_EQ(client.ReadReply().status, 200);
  ASSERT_TRUE(client.SendRequest("GET", "/health"));
  EXPECT_EQ(client.ReadReply().status, 404);
}

TEST_F(ProgramTest, AKeyIsATenant) {
  const auto alice = MakeKey("alice");
  const auto bob = MakeKey("bob");
  ASSERT_TRUE(alice && bob);
  const std::string path = folder() + "/tenants.json";
  std::ofstream(path) << "{\"tenants\": [" << alice->record << "]}";
  GatewayProcess gateway(folder(), {"--tenants", path});
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  const std::string of_alice = "Authorization: Bearer " + alice->key + "\r\n";
  const std::string of_bob = "X-Api-Key: " + bob->key + "\r\n";
  EXPECT_EQ(gateway.Post("/tokenize", kHello).status, 401);
  EXPECT_EQ(gateway.Post("/tokenize", kHello, of_alice).status, 200);
  EXPECT_EQ(gateway.Post("/tokenize", kHello, of_bob).status, 401);
  EXPECT_NE(Sessions().find(" alice "), std::string::npos) << Sessions();

  std::ofstream(path) << "{\"tenants\": [" << alice->record << "," << bob->record << "]}";
  gateway.Signal(SIGHUP);
  ASSERT_TRUE(gateway.WaitForText("read 2 tenants")) << gateway.error_text();
  EXPECT_EQ(gateway.Post("/tokenize", kHello, of_bob).status, 200);

  std::ofstream(path) << "{";
  gateway.Signal(SIGHUP);
  ASSERT_TRUE(gateway.WaitForText("the tenants stay as they are: " + path));
  EXPECT_EQ(gateway.Post("/tokenize", kHello, of_bob).status, 200);
}

TEST_F(ProgramTest, EveryKeyOfAListIsTheSameTenant) {
  GatewayProcess gateway(folder(), {"--api-key", "one,two"});
  ASSERT_TRUE(gateway.WaitUntilReady()) << gateway.error_text();
  EXPECT_EQ(gateway.Post("/tokenize", kHello, "Authorization: Bearer one\r\n").status, 200);
  EXPECT_EQ(gateway.Post("/tokenize", kHello, "Authorization: Bearer two\r\n").status, 200);
  EXPECT_EQ(gateway.Post("/tokenize", kHello, "Authorization: Bearer three\r\n").status, 401);
}

}  // namespace
}  // namespace kvd::http::test
