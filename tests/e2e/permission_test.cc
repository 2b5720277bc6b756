// Tests which objects of one session or uid others can see, and the quotas of other uids. Tests
// with processes of other uids need root; tests within one uid do not. verb_permissions_test.cc
// tests the permissions of each verb. With KVD_OTHER_IS_A_TENANT, tenants take the places of the
// other uids.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/e2e/support/other_owner.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/user_process.h"
#include "tests/e2e/support/visibility.h"

namespace kvd {
namespace {

using test::CodeOf;
using test::Complaints;
using test::Expect;
using test::Lists;
using test::ShowsSnapshot;

constexpr std::int32_t kCells = 40;
const std::vector<TokenId> kOneToken = {9};

class PermissionTest : public test::ServedDaemonTest {
 protected:
  explicit PermissionTest(std::vector<std::string> arguments = {})
      : ServedDaemonTest(std::move(arguments)) {}

  static Sequence Filled(const Client& client) {
    auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    EXPECT_TRUE(
        sequence->Decode(std::vector<TokenId>(kCells, 7), Pos{0}, wire::LogitsWanted::kNone));
    return std::move(*sequence);
  }
  static void ExpectUntouched(const Sequence& sequence) {
    const auto entry = sequence.Query();
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->cell_count, static_cast<std::uint32_t>(kCells));
    EXPECT_EQ(entry->first_pos, 0);
    EXPECT_EQ(entry->next_pos, kCells);
    EXPECT_EQ(entry->delta_count, 1u);
  }
};

TEST_F(PermissionTest, AnotherSessionOfTheUidListsAndPublishesASequence) {
  const Client owner = Connect();
  const Client other = Connect();
  const Sequence sequence = Filled(owner);
  EXPECT_TRUE(Lists(other, sequence.handle()));
  EXPECT_EQ(*other.ReadText(sequence.handle()), *owner.ReadText(sequence.handle()));
  EXPECT_TRUE(other.Publish(sequence.handle(), "theirs"));
  EXPECT_TRUE(ShowsSnapshot(owner, "theirs"));
  EXPECT_TRUE(owner.AttachSnapshot("theirs"));
  EXPECT_TRUE(owner.Unpublish("theirs"));
  ExpectUntouched(sequence);
}

TEST_F(PermissionTest, KeepNeedsASequenceOfTheOwnSession) {
  const Client owner = Connect();
  const Client other = Connect();
  const Sequence theirs = Filled(owner);
  const Sequence own = Filled(other);
  EXPECT_EQ(CodeOf(other.Keep(theirs.handle())), Code::kPermission);
  ExpectUntouched(own);
  EXPECT_TRUE(other.Keep(own.handle()));
  ExpectUntouched(theirs);
}

// ---------------------------------------------------------------------------------- other uids

class SeveralUidsTest : public PermissionTest {
 protected:
  explicit SeveralUidsTest(std::vector<std::string> arguments = {"--allow-uid", "65534",
                                                                 "--allow-uid", "65533"})
      : PermissionTest(std::move(arguments)) {}

  void SetUp() override {
    if (!test::MayBeOther()) GTEST_SKIP() << "needs root";
    PermissionTest::SetUp();
    // DaemonProcess's folder has mode 0700. The test opens the DaemonProcess's folder to all uids,
    // so that only the permissions of the socket's directory are tested.
    ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  }
  // Connects as the other owner, or as the third one (number 2), if the process has its uid.
  Result<Client> ConnectOther(ConnectOptions options = {}, std::uint8_t number = 1) const {
    options.socket_path = socket_path();
    return Client::Connect(test::OptionsOfOther(std::move(options), number));
  }
  // Runs `body` with a connected client of the other owner or the third one, which the daemon
  // admits.
  template <class Body>
  Complaints AsOther(const Body& body, std::uint8_t number = 1) const {
    return test::AsOtherOwner(
        [&]() -> Complaints {
          const auto client = ConnectOther({}, number);
          return client ? body(*client) : "not let in: " + client.error().message;
        },
        number == 1 ? test::kOtherUid : test::kThirdUid);
  }
  // Waits until `client` has the only session: the daemon notices the end of a process after a
  // short time.
  static void WaitUntilAlone(const Client& client) {
    for (int i = 0; i < 6000 && client.Info()->sessions != 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(client.Info()->sessions, 1u);
  }
};

TEST_F(SeveralUidsTest, PrivateSequencesAndSnapshotsOfAnotherUidDoNotExist) {
  const Client owner = Connect();
  const Sequence sequence = Filled(owner);
  const auto published = sequence.Publish("private");
  ASSERT_TRUE(published);
  EXPECT_EQ(AsOther([&](const Client& client) {
              Complaints complaints;
              Expect(complaints, !Lists(client, sequence.handle()), "it is listed");
              Expect(complaints, !Lists(client, *published), "the snapshot is listed");
              Expect(complaints, !ShowsSnapshot(client, "private"), "the snapshot is shown");
              Expect(complaints, CodeOf(client.Attach("private")) == Code::kNotFound, "attach");
              Expect(complaints, CodeOf(client.Unpublish("private")) == Code::kNotFound,
                     "unpublish");
              return complaints;
            }),
            "");
  ExpectUntouched(sequence);
  EXPECT_TRUE(ShowsSnapshot(owner, "private"));
}

TEST_F(SeveralUidsTest, EveryUidReadsAndForksPublicSnapshotsAndNoUidChangesThem) {
  const Client owner = Connect();
  const Sequence sequence = Filled(owner);
  const auto published = sequence.Publish("public", wire::kFlagPublic);
  ASSERT_TRUE(published);
  EXPECT_EQ(
      AsOther([&](const Client& client) {
        Complaints complaints;
        Expect(complaints, Lists(client, *published), "it is not listed");
        Expect(complaints, ShowsSnapshot(client, "public"), "the snapshot is not shown");
        const SequenceHandle source = client.Create().value();
        Expect(complaints, CodeOf(client.Unpublish("public")) == Code::kPermission, "unpublish");
        Expect(complaints,
               CodeOf(client.Publish(source, "public", wire::kFlagForce | wire::kFlagPublic)) ==
                   Code::kExists,
               "replace");
        auto attached = client.AttachSnapshot("public");
        Expect(complaints, attached && attached->Decode(kOneToken, Pos{kCells}), "continue a fork");
        return complaints;
      }),
      "");
  EXPECT_EQ(owner.Query(*published)->cell_count, static_cast<std::uint32_t>(kCells));
}

TEST_F(SeveralUidsTest, TwoOtherUidsAndTheUidOfTheDaemonDoNotSeeEachOther) {
  const Client owner = Connect();
  EXPECT_EQ(AsOther([&](const Client& client) {
              Complaints complaints;
              const SequenceHandle handle = client.Create().value();
              Expect(complaints, client.Publish(handle, "strange").has_value(), "publish");
              const auto mine = client.List();
              Expect(complaints, mine && mine->size() == 2, "its own and its snapshot's alone");
              return complaints;
            }),
            "");
  EXPECT_EQ(AsOther(
                [&](const Client& client) {
                  Complaints complaints;
                  const auto list = client.List();
                  Expect(complaints, list && list->empty(), "the third uid sees something");
                  Expect(complaints, !ShowsSnapshot(client, "strange"), "a private snapshot");
                  const SequenceHandle handle = client.Create().value();
                  Expect(complaints, client.Publish(handle, "strange").has_value(),
                         "a private name of another uid is not free");
                  Expect(complaints, client.Unpublish("strange").has_value(), "unpublish");
                  return complaints;
                },
                2),
            "");
  WaitUntilAlone(owner);
  EXPECT_FALSE(ShowsSnapshot(owner, "strange"));
  EXPECT_EQ(CodeOf(owner.Unpublish("strange")), Code::kNotFound);
  const auto info = owner.Info();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->sequences_live, 1u) << "totals are everyone's";
}

TEST_F(SeveralUidsTest, AnotherUidIsHeldToItsQuotas) {
  const Client owner = Connect();
  const std::uint64_t pool_cells = owner.session().pool_cells;
  EXPECT_EQ(
      AsOther([&](const Client& client) {
        Complaints complaints;
        // The quota is 64 sequences, whether they are created, forked or published.
        const SequenceHandle first = client.Create().value();
        const auto forks = client.Fork(first, -1, 63);
        Expect(complaints, forks.has_value(), "64 sequences");
        const auto one_more = client.Create();
        Expect(complaints,
               CodeOf(one_more) == Code::kNoSpace &&
                   one_more.error().message.find("sequences") != std::string::npos,
               "a 65th sequence");
        Expect(complaints, CodeOf(client.Fork(first, -1, 1)) == Code::kNoSpace, "fork");
        Expect(complaints, CodeOf(client.Publish(first, "full")) == Code::kNoSpace, "publish");
        Expect(complaints, client.Keep(first).has_value(), "keep");
        // The quota is a quarter of the pool.
        const Sequence sequence(client, first);
        const std::vector<TokenId> most(pool_cells / 4, 7),
            more(pool_cells / 4 + layout::kBlockCells, 7);
        const auto refused = sequence.Decode(more, Pos{0}, wire::LogitsWanted::kNone);
        Expect(complaints, CodeOf(refused) == Code::kNoSpace, "more cells");
        const auto done = sequence.Decode(most, Pos{0}, wire::LogitsWanted::kNone);
        Expect(complaints, done.has_value(), "a quarter: " + (done ? "" : done.error().message));
        // The quota is 8 connections, with 64 MiB of result arenas together.
        std::vector<Client> clients;
        while (clients.size() < 7) {
          auto another = ConnectOther();
          if (!another) break;
          clients.push_back(std::move(*another));
        }
        Expect(complaints, clients.size() == 7, "8 connections");
        const auto ninth = ConnectOther();
        Expect(complaints, CodeOf(ninth) == Code::kNoSpace, "a ninth connection");
        return complaints;
      }),
      "");
  WaitUntilAlone(owner);
  EXPECT_EQ(AsOther([&](const Client&) {
              Complaints complaints;
              const auto large = ConnectOther({.result_arena_bytes = std::uint64_t{64} << 20});
              Expect(complaints,
                     CodeOf(large) == Code::kNoSpace &&
                         large.error().message.find("result arena") != std::string::npos,
                     "64 MiB beside what it has");
              return complaints;
            }),
            "");
  // The quotas of sequences, pool and connections for other uids do not apply to the daemon's own
  // uid.
  EXPECT_TRUE(owner.Fork(owner.Create().value(), -1, 100));
  ExpectServesOthers();
}

// Not for tenants (CMakeLists.txt).
class SocketGroupTest : public SeveralUidsTest {
 protected:
  SocketGroupTest() : SeveralUidsTest({"--socket-group", "65534"}) {}
};

TEST_F(SocketGroupTest, OnlyMembersOfTheSocketGroupConnect) {
  const auto connect = [this]() -> Complaints {
    const auto client = Client::Connect({.socket_path = socket_path()});
    return client ? "" : std::string(CodeName(client.error().code));
  };
  EXPECT_EQ(test::AsUser(test::kThirdUid, test::kOtherUid, connect), "");
  EXPECT_EQ(test::AsUser(test::kThirdUid, test::kThirdUid, connect), "permission");
  // The daemon checks the peer's credentials even if the directory and the socket are open to all
  // users.
  ASSERT_EQ(::chmod((daemon_->folder() + "/run").c_str(), 0711), 0);
  ASSERT_EQ(::chmod(socket_path().c_str(), 0666), 0);
  EXPECT_EQ(test::AsUser(test::kThirdUid, test::kThirdUid, connect), "permission");
  EXPECT_TRUE(test::LogShows(*daemon_, "uid 65533 is not admitted"));
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
