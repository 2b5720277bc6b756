// The table of daemon/permissions.h and the quotas of SAFETY.md, as clients meet them. Processes of
// other uids need root; all that one uid can try runs without.
//
// Requests are submitted as they travel, below the client library: it does not offer every flag
// that the protocol has.
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "shm/payload_codec.h"
#include "shm/unique_fd.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using wire::Verb;

constexpr std::int32_t kCells = 40;
const std::vector<TokenId> kOneToken = {9};

template <class T>
Code CodeOf(const Result<T>& result) {
  return result ? Code::kOk : result.error().code;
}

// A request as the table has it, to be aimed at a sequence.
struct Attempt {
  const char* name;
  wire::Submission submission;
  std::vector<std::byte> payload;

  Result<wire::Completion> On(const Client& client, SequenceHandle handle,
                              std::uint16_t flags = 0) const {
    wire::Submission aimed = submission;
    // copy_range changes its destination, which is its second handle.
    (aimed.verb == static_cast<std::uint16_t>(Verb::kCopyRange) ? aimed.sequence2
                                                                : aimed.sequence) =
        static_cast<std::uint64_t>(handle);
    aimed.flags = static_cast<std::uint16_t>(aimed.flags | flags);
    const std::span<const std::byte> bytes(payload);
    std::vector<std::byte> output;
    return client.connection()->Call(aimed, PayloadOf(bytes), &output);
  }
};

wire::Submission Ask(Verb verb, std::int32_t p0 = 0, std::int32_t p1 = 0,
                     std::int64_t argument = 0) {
  wire::Submission submission{};
  submission.verb = static_cast<std::uint16_t>(verb);
  submission.p0 = p0;
  submission.p1 = p1;
  submission.argument = argument;
  return submission;
}

std::vector<std::byte> TextBytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> GeneratePayload() {
  wire::GenerateView view;
  view.params.token_count = 1;
  view.params.predict_max = 1;
  view.params.top_p = view.params.typical_p = view.params.repeat_penalty = 1;
  view.tokens = kOneToken;
  std::vector<std::byte> payload(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, payload);
  return payload;
}

// Everything that changes a sequence of kCells cells, the last of which ends it. `source` is a
// sequence of the caller's.
std::vector<Attempt> Changes(SequenceHandle source) {
  const auto token = std::as_bytes(std::span(kOneToken));
  wire::Submission copy = Ask(Verb::kCopyRange, 0, -1);
  copy.sequence = static_cast<std::uint64_t>(source);
  return {{"decode", Ask(Verb::kDecode, kCells), {token.begin(), token.end()}},
          {"generate", Ask(Verb::kGenerate, -1), GeneratePayload()},
          {"add", Ask(Verb::kAdd, 0, -1, 5), {}},
          {"divide", Ask(Verb::kDivide, 0, -1, 1), {}},
          {"remove_range", Ask(Verb::kRemoveRange, 0, 20), {}},
          {"clear", Ask(Verb::kClear), {}},
          {"copy_range", copy, {}},
          {"drop", Ask(Verb::kDrop), {}}};
}

// Everything that looks at a sequence or takes a part of it along.
std::vector<Attempt> Looks() {
  return {{"query", Ask(Verb::kQuery), {}},
          {"read_tokens", Ask(Verb::kReadTokens, 0, 0, -1), {}},
          {"read_text", Ask(Verb::kReadText), {}},
          {"fork", Ask(Verb::kFork, -1, 0, 2), {}}};
}

bool Lists(const Client& client, SequenceHandle handle) {
  const auto list = client.List();
  return list && std::ranges::any_of(*list, [handle](const wire::SequenceEntry& entry) {
           return entry.handle == static_cast<std::uint64_t>(handle);
         });
}

bool ShowsSnapshot(const Client& client, std::string_view name) {
  const auto snapshots = client.Snapshots();
  return snapshots && std::ranges::any_of(*snapshots, [name](const Snapshot& snapshot) {
           return snapshot.name == name;
         });
}

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

TEST_F(PermissionTest, TheOwningSessionMayDoEverything) {
  const Client owner = Connect();
  const Sequence source = Filled(owner);
  Sequence sequence = Filled(owner);
  EXPECT_TRUE(Lists(owner, sequence.handle()));
  for (const Attempt& look : Looks()) {
    const auto seen = look.On(owner, sequence.handle());
    EXPECT_TRUE(seen) << look.name << ": " << seen.error().message;
  }
  for (const Attempt& change : Changes(source.handle())) {
    const auto changed = change.On(owner, sequence.handle());
    EXPECT_TRUE(changed) << change.name << ": " << changed.error().message;
  }
  EXPECT_EQ(CodeOf(sequence.Query()), Code::kNotFound) << "dropped at last";
  (void)sequence.Detach();
  const Sequence other = Filled(owner);
  EXPECT_TRUE(source.Publish("mine"));
  EXPECT_TRUE(source.Keep());
  EXPECT_EQ(CodeOf(other.Query()), Code::kNotFound);
  EXPECT_TRUE(ShowsSnapshot(owner, "mine")) << "published: not the session's any more";
  EXPECT_TRUE(owner.Unpublish("mine"));
}

TEST_F(PermissionTest, AnotherSessionOfTheUidListsReadsForksAndPublishesAnySequence) {
  const Client owner = Connect();
  const Client other = Connect();
  const Sequence sequence = Filled(owner);
  EXPECT_TRUE(Lists(other, sequence.handle()));
  for (const Attempt& look : Looks()) {
    const auto seen = look.On(other, sequence.handle());
    EXPECT_TRUE(seen) << look.name << ": " << seen.error().message;
  }
  EXPECT_EQ(*other.ReadText(sequence.handle()), *owner.ReadText(sequence.handle()));
  EXPECT_TRUE(other.Publish(sequence.handle(), "theirs"));
  EXPECT_TRUE(owner.AttachSnapshot("theirs"));
  EXPECT_TRUE(owner.Unpublish("theirs"));
  ExpectUntouched(sequence);
}

TEST_F(PermissionTest, AnotherSessionOfTheUidChangesASequenceByForceOnly) {
  const Client owner = Connect();
  const Client other = Connect();
  const Sequence source = Filled(other);
  Sequence sequence = Filled(owner);
  for (const Attempt& change : Changes(source.handle())) {
    const auto refused = change.On(other, sequence.handle());
    ASSERT_FALSE(refused) << change.name;
    EXPECT_EQ(CodeOf(refused), Code::kPermission) << change.name;
    EXPECT_THAT(refused.error().message, HasSubstr("force")) << change.name;
    ExpectUntouched(sequence);
  }
  for (const Attempt& change : Changes(source.handle())) {
    const auto forced = change.On(other, sequence.handle(), wire::kFlagForce);
    EXPECT_TRUE(forced) << change.name << ": " << forced.error().message;
  }
  EXPECT_EQ(CodeOf(sequence.Query()), Code::kNotFound) << "dropped at last, by force";
  (void)sequence.Detach();
}

TEST_F(PermissionTest, KeepTakesASequenceOfTheSessionsOwn) {
  const Client owner = Connect();
  const Client other = Connect();
  const Sequence theirs = Filled(owner);
  const Sequence own = Filled(other);
  EXPECT_EQ(CodeOf(other.Keep(theirs.handle())), Code::kPermission);
  ExpectUntouched(own);
  EXPECT_TRUE(other.Keep(own.handle()));
  ExpectUntouched(theirs);
}

TEST_F(PermissionTest, WhatIsPublishedIsChangedByNobodyNotEvenByForce) {
  const Client owner = Connect();
  const Sequence source = Filled(owner);
  const auto published = source.Publish("fixed");
  ASSERT_TRUE(published) << published.error().message;
  for (const Attempt& change : Changes(source.handle())) {
    const auto refused = change.On(owner, *published, wire::kFlagForce);
    ASSERT_FALSE(refused) << change.name;
    EXPECT_EQ(CodeOf(refused), Code::kPermission) << change.name;
    EXPECT_THAT(refused.error().message, HasSubstr("published")) << change.name;
  }
  EXPECT_EQ(owner.Query(*published)->cell_count, static_cast<std::uint32_t>(kCells));
  EXPECT_TRUE(owner.Unpublish("fixed"));
}

// ---------------------------------------------------------------------------------------- other
// uids

constexpr uid_t kOther = 65534;
constexpr uid_t kThird = 65533;

// What went wrong in a process of another uid, as sentences; nothing: "".
using Complaints = std::string;
void Expect(Complaints& complaints, bool is_right, const std::string& sentence) {
  if (!is_right) complaints += sentence + "\n";
}

Complaints AsUser(uid_t uid, gid_t gid, const std::function<Complaints()>& body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool became = ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 &&
                        ::setresuid(uid, uid, uid) == 0;
    const Complaints complaints = became ? body() : "did not become the uid";
    (void)!::write(write_end.get(), complaints.data(), complaints.size());
    ::_exit(0);
  }
  write_end.reset();
  Complaints complaints;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(read_end.get(), buffer, sizeof buffer)) > 0;)
    complaints.append(buffer, static_cast<std::size_t>(got));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the process of uid " << uid;
  return complaints;
}

class SeveralUidsTest : public PermissionTest {
 protected:
  explicit SeveralUidsTest(std::vector<std::string> arguments = {"--allow-uid", "65534",
                                                                 "--allow-uid", "65533"})
      : PermissionTest(std::move(arguments)) {}

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    PermissionTest::SetUp();
    // DaemonProcess's own folder is 0700; the wall to be tested is the socket's directory in it.
    ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  }
  // With a connection, as a uid that is let in. The socket's group is that of the first one.
  template <class Body>
  Complaints AsOther(const Body& body, uid_t uid = kOther) const {
    return AsUser(uid, kOther, [&]() -> Complaints {
      const auto client = Client::Connect({.socket_path = socket_path()});
      return client ? body(*client) : "not let in: " + client.error().message;
    });
  }
  // Sessions of processes that ended are forgotten soon, not at once.
  static void WaitUntilAlone(const Client& client) {
    for (int i = 0; i < 6000 && client.Info()->sessions != 1; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(client.Info()->sessions, 1u);
  }
  static Complaints ExpectInvisible(const Client& client, SequenceHandle handle) {
    Complaints complaints;
    std::vector<Attempt> attempts = Looks();
    for (Attempt& change : Changes(client.Create().value())) {
      change.submission.flags = wire::kFlagForce;
      attempts.push_back(std::move(change));
    }
    attempts.push_back({"publish", Ask(Verb::kPublish), TextBytes("stolen")});
    attempts.push_back({"keep", Ask(Verb::kKeep), {}});
    for (const Attempt& attempt : attempts) {
      const auto tried = attempt.On(client, handle);
      Expect(complaints, CodeOf(tried) == Code::kNotFound,
             std::string(attempt.name) + (tried ? " was done" : ": " + tried.error().message));
      // No difference to a handle that never was, but the handle itself.
      const auto never = attempt.On(client, SequenceHandle{77777});
      if (tried || never) continue;
      const auto words = [](const std::string& text) { return text.substr(text.find(": ")); };
      Expect(complaints, words(tried.error().message) == words(never.error().message),
             std::string(attempt.name) + " tells: " + tried.error().message);
    }
    Expect(complaints, !Lists(client, handle), "it is listed");
    return complaints;
  }
};

TEST_F(SeveralUidsTest, PrivateSequencesAndSnapshotsOfAnotherUidDoNotExist) {
  const Client owner = Connect();
  const Sequence sequence = Filled(owner);
  const auto published = sequence.Publish("private");
  ASSERT_TRUE(published);
  EXPECT_EQ(AsOther([&](const Client& client) {
              Complaints complaints = ExpectInvisible(client, sequence.handle());
              complaints += ExpectInvisible(client, *published);
              Expect(complaints, !ShowsSnapshot(client, "private"), "the snapshot is shown");
              Expect(complaints, CodeOf(client.Attach("private")) == Code::kNotFound, "attach");
              Expect(complaints, CodeOf(client.Unpublish("private")) == Code::kNotFound,
                     "unpublish");
              return complaints;
            }),
            "");
  ExpectUntouched(sequence);
  EXPECT_TRUE(ShowsSnapshot(owner, "private"));
  EXPECT_FALSE(ShowsSnapshot(owner, "stolen"));
}

TEST_F(SeveralUidsTest, PublicSnapshotsAreReadAndForkedByEveryUidAndChangedByNone) {
  const Client owner = Connect();
  const Sequence sequence = Filled(owner);
  const auto published = sequence.Publish("public", wire::kFlagPublic);
  ASSERT_TRUE(published);
  EXPECT_EQ(
      AsOther([&](const Client& client) {
        Complaints complaints;
        for (const Attempt& look : Looks())
          Expect(complaints, look.On(client, *published).has_value(), look.name);
        Expect(complaints, Lists(client, *published), "it is not listed");
        Expect(complaints, ShowsSnapshot(client, "public"), "the snapshot is not shown");
        const SequenceHandle source = client.Create().value();
        for (const Attempt& change : Changes(source)) {
          const auto refused = change.On(client, *published, wire::kFlagForce);
          Expect(complaints, CodeOf(refused) == Code::kPermission, change.name);
        }
        Expect(complaints, CodeOf(client.Unpublish("public")) == Code::kPermission, "unpublish");
        Expect(complaints,
               CodeOf(client.Publish(source, "public", wire::kFlagForce)) == Code::kExists,
               "replace");
        auto attached = client.AttachSnapshot("public");
        Expect(complaints, attached && attached->Decode(kOneToken, Pos{kCells}), "continue a fork");
        return complaints;
      }),
      "");
  EXPECT_EQ(owner.Query(*published)->cell_count, static_cast<std::uint32_t>(kCells));
}

TEST_F(SeveralUidsTest, TwoStrangersAndTheDaemonsUidDoNotSeeEachOther) {
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
                  Expect(complaints, CodeOf(client.Publish(handle, "strange")) == Code::kExists,
                         "a taken name is taken again");
                  return complaints;
                },
                kThird),
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
        // 64 sequences, however they are made.
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
        // A quarter of the pool; the last block that is begun may pass it.
        const Sequence sequence(client, first);
        const std::vector<TokenId> most(pool_cells / 4, 7),
            more(pool_cells / 4 + layout::kBlockCells, 7);
        const auto refused = sequence.Decode(more, Pos{0}, wire::LogitsWanted::kNone);
        Expect(complaints, CodeOf(refused) == Code::kNoSpace, "more cells");
        const auto done = sequence.Decode(most, Pos{0}, wire::LogitsWanted::kNone);
        Expect(complaints, done.has_value(), "a quarter: " + (done ? "" : done.error().message));
        // 8 connections, and 64 MiB of results among them.
        std::vector<Client> clients;
        while (clients.size() < 7) {
          auto another = Client::Connect({.socket_path = socket_path()});
          if (!another) break;
          clients.push_back(std::move(*another));
        }
        Expect(complaints, clients.size() == 7, "8 connections");
        const auto ninth = Client::Connect({.socket_path = socket_path()});
        Expect(complaints, CodeOf(ninth) == Code::kNoSpace, "a ninth connection");
        return complaints;
      }),
      "");
  WaitUntilAlone(owner);
  EXPECT_EQ(AsOther([&](const Client&) {
              Complaints complaints;
              const auto large = Client::Connect(
                  {.socket_path = socket_path(), .result_arena_bytes = std::uint64_t{64} << 20});
              Expect(complaints,
                     CodeOf(large) == Code::kNoSpace &&
                         large.error().message.find("result arena") != std::string::npos,
                     "64 MiB beside what it has");
              return complaints;
            }),
            "");
  // None of which is a matter of the daemon's own uid.
  EXPECT_TRUE(owner.Fork(owner.Create().value(), -1, 100));
  ExpectServesOthers();
}

class SocketGroupTest : public SeveralUidsTest {
 protected:
  SocketGroupTest() : SeveralUidsTest({"--socket-group", "65534"}) {}
};

TEST_F(SocketGroupTest, ItsMembersAreLetInAndOthersAreNot) {
  const auto connect = [this]() -> Complaints {
    const auto client = Client::Connect({.socket_path = socket_path()});
    return client ? "" : std::string(CodeName(client.error().code));
  };
  EXPECT_EQ(AsUser(kThird, kOther, connect), "");
  EXPECT_EQ(AsUser(kThird, kThird, connect), "permission");
  // Even where the directory lets everybody through, the credentials decide.
  ASSERT_EQ(::chmod((daemon_->folder() + "/run").c_str(), 0711), 0);
  ASSERT_EQ(::chmod(socket_path().c_str(), 0666), 0);
  EXPECT_EQ(AsUser(kThird, kThird, connect), "permission");
  EXPECT_TRUE(test::LogShows(*daemon_, "uid 65533 is not let in"));
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
