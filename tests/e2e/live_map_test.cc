// Tests the live map of a real daemon: clients read the map without a request, cannot write it, and
// see that it is stale after the daemon has ended.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <pty.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "client/kvd.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uid_t kOther = 65534;

Client ConnectForMap(const std::string& socket_path) {
  auto client = Client::Connect({.socket_path = socket_path, .wants_map = true});
  EXPECT_TRUE(client) << client.error().message;
  return std::move(*client);
}

// Refreshes the map until the condition holds or the map is not live. The daemon publishes the map
// periodically.
template <class Condition>
MapState RefreshUntil(LiveMap& map, Condition condition) {
  for (;;) {
    const auto state = map.Refresh();
    EXPECT_TRUE(state) << state.error().message;
    if (!state || *state != MapState::kLive || condition(map.content())) return *state;
    ::usleep(1000);
  }
}

std::string OutputOf(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  EXPECT_EQ(::pclose(pipe), 0) << output;
  return output;
}

class LiveMapTest : public test::ServedDaemonTest {
 protected:
  explicit LiveMapTest(std::vector<std::string> arguments = {})
      : ServedDaemonTest(std::move(arguments)) {}
  std::string Kvctl(const std::string& arguments) const {
    return BinaryFolder() + "/kvctl --socket " + socket_path() + " " + arguments;
  }
};

TEST_F(LiveMapTest, TheMapFollowsChangesOfClients) {
  const Client client = ConnectForMap(socket_path());
  auto map = client.OpenMap();
  ASSERT_TRUE(map) << map.error().message;
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  auto fork = sequence->Fork();
  ASSERT_TRUE(fork);
  const std::uint32_t index = IndexOf(sequence->handle());
  EXPECT_EQ(RefreshUntil(*map,
                         [&](const MapReader& content) {
                           const layout::MapSequence& entry = content.sequences()[index];
                           return entry.cell_count == 40 && entry.shared_cells == 40 &&
                                  content.totals().live_sequences == 2;
                         }),
            MapState::kLive);
  EXPECT_EQ(map->content().totals().live_cells, 40u);
  EXPECT_GE(map->content().sessions()[0].tokens_computed, 40u);
}

TEST_F(LiveMapTest, TheCInterfaceReadsTheMap) {
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path().c_str();
  options.wants_map = 1;
  kvd_client* client = nullptr;
  kvd_map* map = nullptr;
  ASSERT_EQ(kvd_connect(&options, &client), KVD_OK);
  ASSERT_EQ(kvd_map_open(client, &map), KVD_OK);
  kvd_sequence sequence = 0;
  ASSERT_EQ(kvd_sequence_create(client, nullptr, &sequence, nullptr), KVD_OK);
  kvd_map_sequence* sequences = nullptr;
  std::size_t count = 0;
  while (count == 0) {
    int state = -1;
    ASSERT_EQ(kvd_map_refresh(map, &state), KVD_OK);
    ASSERT_EQ(state, KVD_MAP_LIVE);
    kvd_free(sequences);
    ASSERT_EQ(kvd_map_read_sequences(map, &sequences, &count), KVD_OK);
  }
  EXPECT_EQ(sequences[0].sequence, sequence);
  kvd_free(sequences);
  kvd_map_totals totals{};
  totals.size = sizeof totals;
  ASSERT_EQ(kvd_map_read_totals(map, &totals), KVD_OK);
  EXPECT_EQ(totals.total_blocks, 128u);
  kvd_map_block* blocks = nullptr;
  ASSERT_EQ(kvd_map_read_blocks(map, &blocks, &count), KVD_OK);
  EXPECT_EQ(count, 128u);
  kvd_free(blocks);
  kvd_close(client);
  kvd_map_close(map);
}

TEST_F(LiveMapTest, ASessionThatDidNotRequestAMapHasNone) {
  const auto map = Connect().OpenMap();
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().code, Code::kInvalidArgument);
}

TEST_F(LiveMapTest, TheMapOfAKilledDaemonIsStale) {
  const Client client = ConnectForMap(socket_path());
  auto map = client.OpenMap();
  ASSERT_TRUE(map);
  EXPECT_EQ(map->Refresh(), MapState::kLive);
  ASSERT_EQ(::kill(daemon_->pid(), SIGKILL), 0);
  EXPECT_EQ(RefreshUntil(*map, [](const MapReader&) { return false; }), MapState::kKilled);
  EXPECT_TRUE(map->content().has_content());
  (void)daemon_->Stop();  // reaps the killed process, whose status is not 0
  daemon_.reset();
}

TEST_F(LiveMapTest, TheMapOfAStoppedDaemonIsStale) {
  const Client client = ConnectForMap(socket_path());
  auto map = client.OpenMap();
  ASSERT_TRUE(map);
  ASSERT_TRUE(daemon_->Stop());
  EXPECT_EQ(map->Refresh(), MapState::kStopped);
  daemon_.reset();
}

TEST_F(LiveMapTest, TheClientCanNeitherWriteNorResizeTheMap) {
  const Client client = ConnectForMap(socket_path());
  const int descriptor = client.connection()->map_descriptor();
  struct stat status;
  ASSERT_EQ(::fstat(descriptor, &status), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const UniqueFd reopened(::open(path.c_str(), O_RDWR));
  for (const int tried : {descriptor, reopened.get()}) {
    EXPECT_EQ(::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                     MAP_SHARED, tried, 0),
              MAP_FAILED);
    EXPECT_EQ(::ftruncate(tried, 0), -1);
    EXPECT_EQ(::write(tried, "x", 1), -1);
  }
  ExpectServesOthers();
}

TEST_F(LiveMapTest, KvctlMapPrintsTheMapOnce) {
  const Client client = Connect();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  EXPECT_THAT(OutputOf(Kvctl("--json map")), HasSubstr("\"state\":\"live\""));
  EXPECT_THAT(OutputOf(Kvctl("map --svg")), HasSubstr("</svg>"));
  const std::string top = OutputOf(Kvctl("top --once"));
  EXPECT_THAT(top, HasSubstr("cells 40 of 4096 live"));
  EXPECT_THAT(top, HasSubstr(std::to_string(static_cast<std::uint64_t>(sequence->handle()))));
  EXPECT_THAT(top, Not(HasSubstr("\033")));
}

TEST_F(LiveMapTest, TopRestoresTheTerminalWhenASignalEndsIt) {
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const std::string program = BinaryFolder() + "/kvctl";
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::execl(program.c_str(), "kvctl", "--socket", socket_path().c_str(), "top", "--period-ms", "50",
            nullptr);
    ::_exit(127);
  }
  std::string shown;
  bool is_told = false;
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = ::read(terminal, buffer.data(), buffer.size())) > 0;) {
    shown.append(buffer.data(), static_cast<std::size_t>(got));
    if (!is_told && shown.find("SEQUENCE") != std::string::npos) {
      is_told = true;
      EXPECT_EQ(::kill(child, SIGTERM), 0);
    }
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(shown.starts_with("\033[?1049h\033[?25l"));
  EXPECT_TRUE(shown.ends_with("\033[?25h\033[?1049l"));
  ::close(terminal);
}

class OtherUidsMapTest : public LiveMapTest {
 protected:
  OtherUidsMapTest() : LiveMapTest({"--allow-uid", "65534"}) {}
};

TEST_F(OtherUidsMapTest, AnotherUidSeesTotalsAndOnlyItsOwnSequences) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to run a process of another uid";
  ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  const Client owner = Connect();
  auto sequence = owner.NewSequence();
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kOther) != 0 || ::setuid(kOther) != 0) ::_exit(9);
    const auto client = Client::Connect({.socket_path = socket_path(), .wants_map = true});
    if (!client) ::_exit(1);
    auto map = client->OpenMap();
    if (!map) ::_exit(2);
    const MapReader& content = map->content();
    if (content.totals().live_cells != 40 || content.viewer_uid() != kOther) ::_exit(3);
    for (const auto& entry : content.sequences()) {
      if (entry.handle != 0) ::_exit(4);
    }
    for (const auto& entry : content.sessions()) {
      if (entry.session != 0 && entry.uid != kOther) ::_exit(5);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : 98, 0);
}

}  // namespace
}  // namespace kvd
