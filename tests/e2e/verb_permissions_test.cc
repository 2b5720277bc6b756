// Tests every verb for every relation of a caller to a sequence (daemon/sessions/owners.h): the
// daemon gives the answer that every_verb.h defines, and a refused request changes nothing. The
// tests need root to start processes of other uids. With KVD_OTHER_IS_A_TENANT, a tenant takes the
// place of the other uid.
//
// The requests are submitted without the client library's methods, because the methods do not offer
// every flag of the protocol.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/e2e/support/every_verb_fixture.h"
#include "tests/e2e/support/other_owner.h"
#include "tests/e2e/support/visibility.h"

namespace kvd {
namespace {

using test::CodeOf;
using test::Complaints;
using test::Expect;
using test::ModelKind;
using test::Relation;
using test::Target;
using test::VerbUse;
using ::testing::HasSubstr;

constexpr SequenceHandle kNever{77777};

std::uint16_t FlagsOf(const VerbUse& use, Relation relation) {
  return test::HasForce(use, relation) ? std::uint16_t{wire::kFlagForce} : std::uint16_t{0};
}

std::string Said(const Result<wire::Completion>& answer) {
  return answer ? "done"
                : std::string(CodeName(answer.error().code)) + ": " + answer.error().message;
}

// The state that a refused request could change: the sequence, and the names of snapshots and saved
// files.
struct State {
  wire::SequenceEntry entry{};
  std::vector<std::string> names;
  friend bool operator==(const State& a, const State& b) {
    return std::memcmp(&a.entry, &b.entry, sizeof a.entry) == 0 && a.names == b.names;
  }
};

State StateOf(const Client& client, SequenceHandle sequence) {
  State state;
  const auto entry = client.Query(sequence);
  if (entry) state.entry = *entry;  // otherwise the sequence does not exist
  state.entry.age_ms = 0;
  state.entry.shared_cells = 0;  // changes with other sequences
  state.entry.extent_count = 0;  // changes with the defragmentation that the same test requests
  const auto snapshots = client.Snapshots().value();
  for (const Snapshot& snapshot : snapshots) state.names.push_back(snapshot.name);
  const auto saved = client.Saved().value();
  for (const wire::SavedEntry& file : saved) state.names.emplace_back(file.name);
  return state;
}

class VerbPermissionsTest : public test::EveryVerbTest {
 protected:
  // Checks the answer to every use when a session of the daemon's own uid asks in the given
  // relation.
  void ExpectAnswers(Relation relation) {
    for (const VerbUse& use : Uses()) {
      SCOPED_TRACE(use.name + ", " + NameOf(relation));
      const Client owner = Connect();
      const Client sibling = Connect();
      const Client& caller = relation == Relation::kOwner ? owner : sibling;
      Target target = MakeTarget(owner, use, relation);
      AddOwn(caller, GetParam(), &target);
      const State before = StateOf(owner, target.sequence);
      const auto answer = test::Ask(caller, use, target, FlagsOf(use, relation));
      EXPECT_EQ(CodeName(CodeOf(answer)), CodeName(test::AnswerFor(use, relation))) << Said(answer);
      if (!answer) {
        EXPECT_EQ(StateOf(owner, target.sequence), before) << "refused and changed";
      }
      const bool is_hint_wanted =
          CodeOf(answer) == Code::kPermission && use.need == test::Need::kChange;
      if (is_hint_wanted && relation == Relation::kSibling) {
        EXPECT_THAT(answer.error().message, HasSubstr("force"));
      }
      if (is_hint_wanted && relation == Relation::kPublished) {
        EXPECT_THAT(answer.error().message, HasSubstr("published"));
      }
    }
    ExpectServesOthers();
  }
};

TEST_P(VerbPermissionsTest, TheOwningSessionMayDoEverything) { ExpectAnswers(Relation::kOwner); }

TEST_P(VerbPermissionsTest, AnotherSessionOfTheUidReadsEverySequenceAndChangesNone) {
  ExpectAnswers(Relation::kSibling);
}

TEST_P(VerbPermissionsTest, AnotherSessionOfTheUidChangesASequenceByForce) {
  ExpectAnswers(Relation::kSiblingByForce);
}

TEST_P(VerbPermissionsTest, EverySessionOfTheUidMayChangeARetainedSequence) {
  ExpectAnswers(Relation::kRetained);
}

TEST_P(VerbPermissionsTest, NoSessionChangesAPublishedSequenceEvenByForce) {
  ExpectAnswers(Relation::kPublished);
}

class VerbsOfStrangersTest : public VerbPermissionsTest {
 protected:
  struct Case {
    VerbUse use;
    Target target;
    State before;
  };

  void SetUp() override {
    if (!test::MayBeOther()) GTEST_SKIP() << "needs root to run a process of another uid";
    VerbPermissionsTest::SetUp();
    // DaemonProcess's folder has mode 0700. The test opens the DaemonProcess's folder to all uids,
    // so that only the permissions of the socket's directory are tested.
    ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  }

  // Returns the error message without the name or handle at its start.
  static std::string Words(const std::string& message) {
    return message.substr(std::min(message.find(": "), message.size()));
  }

  static void ExpectAnswer(const Case& one, Relation relation, Complaints* complaints,
                           const std::string& socket_path) {
    const auto client = Client::Connect(test::OptionsOfOther({.socket_path = socket_path}));
    if (!client) return Expect(*complaints, false, "not let in: " + client.error().message);
    Target target = one.target;
    AddOwn(*client, GetParam(), &target);
    const std::string name = one.use.name + ", " + NameOf(relation);
    const std::uint16_t flags = FlagsOf(one.use, relation);
    const auto answer = test::Ask(*client, one.use, target, flags);
    Expect(*complaints, CodeOf(answer) == test::AnswerFor(one.use, relation),
           name + ": " + Said(answer) + ", wanted " +
               std::string(CodeName(test::AnswerFor(one.use, relation))));
    if (CodeOf(answer) == Code::kNotFound) {
      // The answer must be the same as for a handle or name that never existed.
      target.sequence = kNever;
      target.snapshot = target.saved = "never";
      const auto never = test::Ask(*client, one.use, target, flags);
      Expect(*complaints,
             CodeOf(never) == Code::kNotFound &&
                 Words(never.error().message) == Words(answer.error().message),
             name + ": " + Said(answer) + ", and for an object that never existed: " + Said(never));
    }
    // Frees the other uid's sequences, so that its quotas are not reached; permission_test.cc tests
    // the quotas.
    const auto sequences = client->List().value();
    for (const wire::SequenceEntry& entry : sequences) {
      const auto handle = static_cast<SequenceHandle>(entry.handle);
      if (entry.owner_uid == test::kOtherUid) (void)client->Drop(handle, Force::kYes);
    }
    const auto snapshots = client->Snapshots().value();
    for (const Snapshot& snapshot : snapshots) (void)client->Unpublish(snapshot.name);
  }

  void ExpectAnswers(Relation relation) {
    const Client owner = Connect();
    std::vector<Case> cases;
    for (const VerbUse& use : Uses()) {
      Case& one = cases.emplace_back(Case{use, MakeTarget(owner, use, relation), {}});
      one.before = StateOf(owner, one.target.sequence);
    }
    const std::vector<std::string> names = StateOf(owner, cases.front().target.sequence).names;
    EXPECT_EQ(test::AsOtherOwner([&] {
                Complaints complaints;
                for (const Case& one : cases)
                  ExpectAnswer(one, relation, &complaints, socket_path());
                return complaints;
              }),
              "");
    for (Case& one : cases) {
      SCOPED_TRACE(one.use.name);
      one.before.names = names;  // the owner has made more names for the other cases
      EXPECT_EQ(StateOf(owner, one.target.sequence), one.before) << "changed by another uid";
    }
    ExpectServesOthers();
  }
};

TEST_P(VerbsOfStrangersTest, PrivateSequencesSnapshotsAndFilesDoNotExistForAnotherUid) {
  ExpectAnswers(Relation::kStranger);
}

TEST_P(VerbsOfStrangersTest, EveryUidReadsPublicSnapshotsAndNoUidChangesThem) {
  ExpectAnswers(Relation::kStrangerPublic);
}

constexpr ModelKind kModels[] = {ModelKind::kDecoder, ModelKind::kEncoderDecoder,
                                 ModelKind::kEncoder};
INSTANTIATE_TEST_SUITE_P(Models, VerbPermissionsTest, ::testing::ValuesIn(kModels),
                         test::NameOfModel);
INSTANTIATE_TEST_SUITE_P(Models, VerbsOfStrangersTest, ::testing::ValuesIn(kModels),
                         test::NameOfModel);

}  // namespace
}  // namespace kvd
