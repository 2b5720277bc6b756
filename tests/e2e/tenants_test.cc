// Tests tenants with a real daemon: what one tenant sees of another, names, saved states, limits of
// the tenants' file that SIGHUP reads again, kvctl tenants, and a session that a second process
// takes over from a killed one.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/e2e/support/visibility.h"

namespace kvd {
namespace {

using test::CodeOf;
using test::Lists;
using test::ShowsSnapshot;
using testing::HasSubstr;
using Tenant = std::array<std::uint8_t, 16>;

constexpr Tenant kFirst{1};
constexpr Tenant kSecond{2};
const std::vector<TokenId> kPrompt(40, 7);

class TenantsTest : public test::ServedDaemonTest {
 protected:
  TenantsTest() : TenantsTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit TenantsTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : ServedDaemonTest({"--store", (folder->path() / "store").string(), "--tenants",
                          WriteFile(*folder,
                                    "[01000000000000000000000000000000]\nname = alice\n"
                                    "sequences = 3\npool_share = 0.25\n")}),
        folder_(folder) {}

  static std::string WriteFile(const test::TemporaryFolder& folder, const std::string& text) {
    const std::string path = (folder.path() / "tenants").string();
    std::ofstream(path) << text;
    return path;
  }
  Client As(const Tenant& tenant, ConnectOptions options = {}) {
    options.socket_path = socket_path();
    options.tenant = tenant;
    auto client = Client::Connect(options);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  static Sequence Filled(const Client& client) {
    auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    EXPECT_TRUE(sequence->Decode(kPrompt, Pos{0}, wire::LogitsWanted::kNone));
    return std::move(*sequence);
  }

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(TenantsTest, PrivateObjectsOfATenantExistNeitherForAnotherNorForTheUid) {
  const Client first = As(kFirst);
  const Sequence sequence = Filled(first);
  const auto published = sequence.Publish("private");
  ASSERT_TRUE(published) << published.error().message;
  ASSERT_TRUE(first.Save(sequence.handle(), "saved"));
  const Client second = As(kSecond);
  const Client uid = Connect();
  for (const Client* const other : {&second, &uid}) {
    EXPECT_FALSE(Lists(*other, sequence.handle()));
    EXPECT_FALSE(Lists(*other, *published));
    EXPECT_FALSE(ShowsSnapshot(*other, "private"));
    EXPECT_EQ(CodeOf(other->Query(sequence.handle())), Code::kNotFound);
    EXPECT_EQ(CodeOf(other->ReadText(sequence.handle())), Code::kNotFound);
    EXPECT_EQ(CodeOf(other->Fork(sequence.handle(), -1, 1)), Code::kNotFound);
    EXPECT_EQ(CodeOf(other->Drop(sequence.handle(), Force::kYes)), Code::kNotFound);
    EXPECT_EQ(CodeOf(other->Attach("private")), Code::kNotFound);
    EXPECT_EQ(CodeOf(other->Unpublish("private", Force::kYes)), Code::kNotFound);
    EXPECT_EQ(CodeOf(other->Load("saved")), Code::kNotFound);
  }
  const Client sibling = As(kFirst);
  EXPECT_TRUE(Lists(sibling, sequence.handle()));
  EXPECT_TRUE(sibling.Load("saved"));
  EXPECT_TRUE(sequence.Query());
}

TEST_F(TenantsTest, EachTenantHasItsOwnNames) {
  const Client first = As(kFirst);
  const Client second = As(kSecond);
  const Sequence mine = Filled(first);
  const Sequence theirs = Filled(second);
  ASSERT_TRUE(mine.Publish("notebook"));
  ASSERT_TRUE(theirs.Publish("notebook"));
  ASSERT_TRUE(first.Save(mine.handle(), "state"));
  EXPECT_TRUE(second.Save(theirs.handle(), "state"));
  EXPECT_EQ(CodeOf(second.Publish(theirs.handle(), "notebook")), Code::kExists);
  EXPECT_TRUE(second.Unpublish("notebook"));
  EXPECT_TRUE(ShowsSnapshot(first, "notebook"));
  // The names of public snapshots are unique among all owners; an owner's private snapshot hides a
  // public one of the same name.
  const auto shown = second.Publish(theirs.handle(), "public", wire::kFlagPublic);
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_TRUE(first.AttachSnapshot("public"));
  EXPECT_EQ(CodeOf(first.Publish(mine.handle(), "public", wire::kFlagPublic)), Code::kExists);
  EXPECT_EQ(CodeOf(first.Unpublish("public")), Code::kPermission);
}

TEST_F(TenantsTest, TwoTenantsWithOnePromptShareNoCell) {
  const Client first = As(kFirst);
  const Sequence mine = Filled(first);
  const std::uint64_t computed = first.Info()->tokens_computed;
  const Client second = As(kSecond);
  const Sequence theirs = Filled(second);
  EXPECT_EQ(first.Info()->tokens_computed - computed, kPrompt.size()) << "nothing was reused";
  EXPECT_EQ(mine.Query()->shared_cells, 0u);
  EXPECT_EQ(theirs.Query()->shared_cells, 0u);
  const Client sibling = As(kFirst);
  const Sequence shared = Filled(sibling);
  EXPECT_GT(shared.Query()->shared_cells, 0u) << "within a tenant, prompts share";
}

TEST_F(TenantsTest, LimitsOfTheFileApplyAndSighupReadsThemAgain) {
  const Client first = As(kFirst);
  const SequenceHandle source = first.Create().value();
  ASSERT_TRUE(first.Fork(source, -1, 2));
  const auto fourth = first.Create();
  EXPECT_EQ(CodeOf(fourth), Code::kNoSpace);
  EXPECT_THAT(fourth.error().message, HasSubstr("sequences"));
  const auto wait_for = [&](const char* line) { return test::LogShows(*daemon_, line); };
  WriteFile(*folder_, "[01000000000000000000000000000000]\nsequences = 0\n");
  ASSERT_EQ(::kill(daemon_->pid(), SIGHUP), 0);
  EXPECT_TRUE(wait_for("tenants_refused"));
  EXPECT_TRUE(wait_for("line 2: sequences"));
  EXPECT_EQ(CodeOf(first.Create()), Code::kNoSpace) << "the old limits hold";
  WriteFile(*folder_,
            "[01000000000000000000000000000000]\nname = bob\nsequences = 5\nweight = 2\n");
  ASSERT_EQ(::kill(daemon_->pid(), SIGHUP), 0);
  EXPECT_TRUE(wait_for("tenants_read tenants=1"));
  EXPECT_TRUE(first.Create());

  const auto tenants = Connect().Call(wire::TenantsArgs{});
  ASSERT_TRUE(tenants) << tenants.error().message;
  ASSERT_EQ(tenants->entries.size(), 1u);
  const wire::TenantEntry& entry = tenants->entries.front();
  EXPECT_TRUE(std::ranges::equal(entry.tenant, kFirst));
  EXPECT_STREQ(entry.name, "bob");
  EXPECT_EQ(entry.sequences_held, 4u);
  EXPECT_EQ(entry.sequences_max, 5u);
  EXPECT_EQ(entry.connections_held, 1u);
  EXPECT_EQ(entry.weight, 2u);
  EXPECT_EQ(CodeOf(first.Call(wire::TenantsArgs{})), Code::kPermission)
      << "a tenant may not list tenants";
}

TEST_F(TenantsTest, ATenantGetsAtMostItsShareOfThePool) {
  const Client first = As(kFirst);
  const std::uint64_t pool_cells = first.session().pool_cells;
  const auto sequence = first.NewSequence();
  const std::vector<TokenId> more(pool_cells / 4 + layout::kBlockCells, 7);
  const auto refused = sequence->Decode(more, Pos{0}, wire::LogitsWanted::kNone);
  EXPECT_EQ(CodeOf(refused), Code::kNoSpace);
  EXPECT_TRUE(
      sequence->Decode(std::vector<TokenId>(pool_cells / 4, 7), Pos{0}, wire::LogitsWanted::kNone));
}

TEST_F(TenantsTest, TheLiveMapOfATenantShowsItsOwnSequencesOnly) {
  const Client first = As(kFirst, {.wants_map = true});
  const Client second = As(kSecond, {.wants_map = true});
  const Sequence mine = Filled(first);
  const Sequence theirs = Filled(second);
  const auto shows = [](const LiveMap& map, SequenceHandle handle) {
    return std::ranges::any_of(map.content().sequences(), [&](const auto& entry) {
      return entry.handle == static_cast<std::uint64_t>(handle);
    });
  };
  const auto map_of = [&](const Client& client, SequenceHandle own) {
    auto map = client.OpenMap();
    EXPECT_TRUE(map) << map.error().message;
    for (int i = 0; i < 2000 && !shows(*map, own); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_TRUE(map->Refresh());
    }
    return std::move(*map);
  };
  const LiveMap first_map = map_of(first, mine.handle());
  EXPECT_TRUE(shows(first_map, mine.handle()));
  EXPECT_FALSE(shows(first_map, theirs.handle()));
  const LiveMap second_map = map_of(second, theirs.handle());
  EXPECT_TRUE(shows(second_map, theirs.handle()));
  EXPECT_FALSE(shows(second_map, mine.handle()));
}

TEST_F(TenantsTest, AnExpiredSequenceIsDroppedWithoutARequest) {
  const Client first = As(kFirst);
  const SequenceHandle brief = first.Create(0, {.ttl_seconds = 1}).value();
  EXPECT_EQ(first.Query(brief)->expires_in_seconds, 1u);
  for (int i = 0; i < 2000 && first.Query(brief); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(CodeOf(first.Query(brief)), Code::kNotFound);
}

TEST_F(TenantsTest, ASecondProcessTakesOverTheSessionOfAKilledOne) {
  int results[2];
  ASSERT_EQ(::pipe(results), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto client =
        Client::Connect({.socket_path = socket_path(), .tenant = kFirst, .outlive_seconds = 600});
    if (!client) ::_exit(2);
    const auto sequence = client->NewSequence();
    if (!sequence || !sequence->Decode(kPrompt, Pos{0}, wire::LogitsWanted::kNone)) ::_exit(3);
    const SequenceHandle handle = sequence->handle();
    (void)!::write(results[1], client->session().session_token.data(), 16);
    (void)!::write(results[1], &handle, sizeof handle);
    ::pause();
    ::_exit(0);
  }
  std::array<std::uint8_t, 16> token{};
  SequenceHandle handle{};
  ASSERT_EQ(::read(results[0], token.data(), token.size()), 16);
  ASSERT_EQ(::read(results[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto stolen =
      Client::Connect({.socket_path = socket_path(), .session_token = token, .tenant = kSecond});
  EXPECT_EQ(CodeOf(stolen), Code::kSessionLost);
  const Client heir = As(kFirst, {.session_token = token, .outlive_seconds = 600});
  const auto entry = heir.Query(handle);
  ASSERT_TRUE(entry) << entry.error().message;
  EXPECT_EQ(entry->cell_count, kPrompt.size());
  // The sequence belongs to the session, so it is changed without force.
  const Sequence sequence(heir, handle);
  EXPECT_TRUE(sequence.Decode(std::vector<TokenId>{9}, Pos{40}));
  ::close(results[0]);
  ::close(results[1]);
}

}  // namespace
}  // namespace kvd
