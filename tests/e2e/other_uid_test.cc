// Tests the connections and objects that another uid may use, with processes of another uid. The
// tests need root to change the uid.
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/e2e/support/other_owner.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/e2e/support/user_process.h"

namespace kvd {
namespace {

using test::kOtherUid;

class OtherUidTest : public test::ServedDaemonTest {
 protected:
  explicit OtherUidTest(std::vector<std::string> arguments = {"--allow-uid", "65534"})
      : ServedDaemonTest(std::move(arguments)) {}

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to run a process of another uid";
    ServedDaemonTest::SetUp();
    // Opens the daemon's folder to all uids, so that only the permissions of the socket's directory
    // are tested.
    ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  }
  // Runs `body` in a process of another uid and returns its exit status. A nonzero status
  // identifies the failed expectation.
  static int AsOther(const std::function<int()>& body) {
    return test::StatusAsUser(kOtherUid, kOtherUid, body);
  }
};

TEST_F(OtherUidTest, AnAllowedUidConnectsAndSeesPublicSnapshotsOnly) {
  const Client owner = Connect();
  auto sequence = owner.NewSequence();
  ASSERT_TRUE(sequence);
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  ASSERT_TRUE(sequence->Publish("private"));
  ASSERT_TRUE(sequence->Publish("public", wire::kFlagPublic));
  EXPECT_EQ(AsOther([&] {
              const auto client = Client::Connect({.socket_path = socket_path()});
              if (!client) return 1;
              if (client->Query(sequence->handle())) return 2;
              if (client->AttachSnapshot("private")) return 3;
              auto attached = client->AttachSnapshot("public");
              if (!attached) return 4;
              if (!attached->Decode(std::vector<TokenId>{9}, Pos{40})) return 5;
              const auto list = client->List();
              if (!list) return 6;
              for (const wire::SequenceEntry& entry : *list) {
                if (entry.handle == static_cast<std::uint64_t>(sequence->handle())) return 7;
              }
              return 0;
            }),
            0);
  ExpectServesOthers();
}

TEST_F(OtherUidTest, TheLogShowsNoParentOfAnotherUid) {
  const Client owner = Connect();
  auto sequence = owner.NewSequence();
  ASSERT_TRUE(sequence);
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  ASSERT_TRUE(sequence->Publish("public", wire::kFlagPublic));
  EXPECT_EQ(AsOther([&] {
              const auto client = Client::Connect({.socket_path = socket_path()});
              if (!client) return 1;
              auto attached = client->AttachSnapshot("public");
              if (!attached) return 2;
              const auto log = client->Call(wire::LogArgs{attached->handle()});
              if (!log || log->entries.size() != 2) return 3;
              const wire::LogRecord& parent = log->entries[1];
              if (log->entries[0].parent != parent.sequence) return 4;
              if (parent.parent != 0 || parent.parent_cells != 0) return 5;
              if (client->Call(wire::LogArgs{sequence->handle()})) return 6;
              return 0;
            }),
            0);
}

TEST_F(OtherUidTest, ChangesOfOneUidChangeNoBlockInTheMapOfAnother) {
  const auto owner = Client::Connect({.socket_path = socket_path(), .wants_map = true});
  ASSERT_TRUE(owner) << owner.error().message;
  auto map = owner->OpenMap();
  ASSERT_TRUE(map) << map.error().message;
  auto sequence = owner->NewSequence();
  ASSERT_TRUE(sequence);
  ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
  ASSERT_TRUE(sequence->Publish("public", wire::kFlagPublic));
  // Waits until the map shows at least `tokens` computed tokens and two sequences, and returns its
  // blocks as words.
  const auto blocks = [&](std::uint64_t tokens) {
    do {
      ::usleep(1000);
      EXPECT_EQ(*map->Refresh(), MapState::kLive);
    } while (map->content().totals().tokens_computed < tokens ||
             map->content().totals().live_sequences < 2);
    const auto shown = map->content().blocks();
    const std::span words(reinterpret_cast<const std::uint64_t*>(shown.data()), shown.size());
    static_assert(sizeof shown[0] == sizeof words[0]);
    return std::vector<std::uint64_t>(words.begin(), words.end());
  };
  const std::vector<std::uint64_t> before = blocks(40);
  EXPECT_EQ(AsOther([&] {
              const auto client = Client::Connect({.socket_path = socket_path()});
              if (!client) return 1;
              auto attached = client->AttachSnapshot("public");
              if (!attached || !attached->Decode(std::vector<TokenId>(5, 9), Pos{40})) return 2;
              auto own = client->NewSequence();
              if (!own || !own->Decode(std::vector<TokenId>(90, 11), Pos{0})) return 3;
              return 0;
            }),
            0);
  EXPECT_EQ(blocks(135), before);
}

TEST_F(OtherUidTest, AnotherUidHasAtMostEightConnections) {
  EXPECT_EQ(AsOther([&] {
              std::vector<Client> clients;
              for (int i = 0; i < 8; ++i) {
                auto client = Client::Connect({.socket_path = socket_path()});
                if (!client) return 1;
                clients.push_back(std::move(*client));
              }
              const auto ninth = Client::Connect({.socket_path = socket_path()});
              return !ninth && ninth.error().code == Code::kNoSpace ? 0 : 2;
            }),
            0);
  ExpectServesOthers();
}

class QuotasOfAnotherUidTest : public OtherUidTest {
 protected:
  QuotasOfAnotherUidTest() : QuotasOfAnotherUidTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit QuotasOfAnotherUidTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : OtherUidTest({"--allow-uid", "65534", "--other-sequences", "3", "--other-saved-bytes",
                      "200000", "--store", (folder->path() / "store").string()}),
        folder_(folder) {}
  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(QuotasOfAnotherUidTest, SequencesAndSavedBytesOfAnotherUidAreLimitedAndItsFilesPrivate) {
  {
    const Client owner = Connect();
    const auto sequence = owner.NewSequence();
    ASSERT_TRUE(sequence->Decode(std::vector<TokenId>(40, 7), Pos{0}, wire::LogitsWanted::kNone));
    ASSERT_TRUE(owner.Save(sequence->handle(), "mine"));
  }
  EXPECT_EQ(AsOther([&] {
              const auto client = Client::Connect({.socket_path = socket_path()});
              if (!client) return 1;
              if (!client->Saved() || !client->Saved()->empty()) return 2;
              if (client->Load("mine").error().code != Code::kNotFound) return 3;
              const auto sequence = client->Create();
              auto decoding = client->StartDecode(*sequence, std::vector<TokenId>(100, 7), Pos{0},
                                                  wire::LogitsWanted::kNone);
              if (!decoding || !decoding->Next()) return 4;
              const SaveOptions plain{.with_logits = false, .is_packed = false};
              if (!client->Save(*sequence, "one", plain)) return 5;
              const auto second = client->Save(*sequence, "two", plain);
              if (second || second.error().code != Code::kNoSpace) return 6;
              if (!client->RemoveSaved("one")) return 7;
              if (!client->Save(*sequence, "two", plain)) return 8;
              if (!client->Load("two") || !client->Load("two")) return 9;
              const auto fourth = client->Load("two");
              if (fourth || fourth.error().code != Code::kNoSpace) return 10;
              const auto fork = client->Fork(*sequence, -1, 1);
              if (fork || fork.error().code != Code::kNoSpace) return 11;
              // A generation that continues without a prompt needs one more sequence for a short
              // time.
              GenerateOptions more;
              more.flags = wire::kContinue;
              more.predict_max = 1;
              auto generation = client->StartGenerate(*sequence, more);
              if (!generation) return 12;
              const auto piece = generation->Next();
              return !piece && piece.error().code == Code::kNoSpace ? 0 : 13;
            }),
            0);
  const Client owner = Connect();
  const auto saved = owner.Saved();
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->size(), 1u);
  ExpectServesOthers();
}

class ClosedToOthersTest : public OtherUidTest {
 protected:
  ClosedToOthersTest() : OtherUidTest({}) {}
};

TEST_F(ClosedToOthersTest, AnotherUidCannotOpenTheSocket) {
  EXPECT_EQ(AsOther([&] { return Client::Connect({.socket_path = socket_path()}) ? 1 : 0; }), 0);
}

TEST_F(ClosedToOthersTest, AnotherUidWithTheSocketIsRefusedByItsCredentials) {
  ASSERT_EQ(::chmod((daemon_->folder() + "/run").c_str(), 0711), 0);
  ASSERT_EQ(::chmod(socket_path().c_str(), 0666), 0);
  EXPECT_EQ(AsOther([&] {
              const auto client = Client::Connect({.socket_path = socket_path()});
              return !client && client.error().code == Code::kPermission ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(test::LogShows(*daemon_, "uid 65534 is not admitted"));
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
