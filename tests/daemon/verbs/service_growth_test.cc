// Counts the records that a request reads, at two sizes of the memory: a stranger's requests read
// no more records when others have more sequences and snapshots, and a list reads each record once.
#include <gtest/gtest.h>

#include "daemon/verbs/service.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::kOwn;
using test::ReceivedCompletion;
using test::ServiceTest;
using wire::Verb;

struct Size {
  std::uint32_t sequences = 0;
  std::uint32_t snapshots = 0;
};

class ServiceGrowthTest : public ServiceTest, public testing::WithParamInterface<Size> {
 protected:
  ServiceGrowthTest()
      : ServiceTest({.cells = 4096, .sequence_capacity = 17'000, .snapshot_capacity = 1'024}) {
    const SequenceOwner owner{.id = OwnerId{kOwn}, .session = SessionId{1}};
    for (std::uint32_t made = 0; made < GetParam().sequences; ++made) {
      (void)*engine_.memory().sequences().Create(owner);
    }
    const SequenceHandle published = Filled(client_, 40);
    for (std::uint32_t number = 0; number < GetParam().snapshots; ++number) {
      (void)*engine_.memory().snapshots().Publish(published, owner, std::to_string(number), true,
                                                  false);
    }
    (void)LooksSince();
  }
  MemoryLooks LooksSince() { return static_cast<Memory&>(engine_.memory()).TakeLooks(); }
  std::uint64_t RecordsOf(const wire::Submission& submission, std::string_view text = {}) {
    (void)LooksSince();
    const ReceivedCompletion reply = CallText(stranger_, submission, text);
    EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
    made_ = reply.sequence();
    return LooksSince().records;
  }

  SequenceHandle made_ = SequenceHandle::kNone;  // the sequence that the last request made
};

TEST_P(ServiceGrowthTest, RequestsOfAnotherUidVisitOnlyItsOwnSequences) {
  EXPECT_LE(RecordsOf(Make(Verb::kCreate)), 2u);
  const SequenceHandle own = made_;
  wire::Submission fork = Make(wire::ForkArgs{.sequence = own, .count = 3});
  EXPECT_LE(RecordsOf(fork), 4u);
  EXPECT_LE(RecordsOf(Make(Verb::kPublish, own), "strange"), 4u);
  EXPECT_LE(RecordsOf(Make(Verb::kAttach), "7"), 4u);
  EXPECT_LE(RecordsOf(Make(Verb::kQuery, own)), 4u);
  wire::Submission foreign = Make(
      wire::ForkArgs{.sequence = engine_.memory().snapshots().Find("7", OwnerOf(kOwn))->sequence});
  EXPECT_LE(RecordsOf(foreign), 4u);  // forks a public snapshot of another uid by its handle
  // The caller has at most eight sequences.
  EXPECT_LE(RecordsOf(Make(Verb::kKeep, own)), 20u);
  EXPECT_LE(RecordsOf(Make(Verb::kDropRetained)), 20u);
  const ReceivedCompletion decode = CallTokens(stranger_, Make(Verb::kDecode, own), {5, 6, 7});
  EXPECT_EQ(decode.code(), Code::kOk) << Text(decode);
  EXPECT_LE(LooksSince().records, 10u);
  RunDry();
  (void)LooksSince();
  service_.SessionClosed(stranger_.session()->id());
  EXPECT_LE(LooksSince().records, 20u);
}

TEST_P(ServiceGrowthTest, AListVisitsEachRecordOnce) {
  const std::uint64_t live = engine_.memory().Usage().live_sequences;
  EXPECT_LE(RecordsOf(Make(Verb::kList)), live);
  const ReceivedCompletion reply = Call(stranger_, Make(Verb::kList));
  EXPECT_EQ(reply.output.size(), GetParam().snapshots * sizeof(wire::SequenceEntry));
  EXPECT_LE(LooksSince().records_at_once, Sequences::kListedAtOnce);
}

TEST_P(ServiceGrowthTest, RetainedSequencesAreDroppedInPortionsAndAllAreCounted) {
  const SequenceHandle held = Filled(sibling_, 40);
  std::vector<SequenceHandle> forks(600);
  const SequenceOwner owner{.id = OwnerId{kOwn}, .session = SessionId{2}};
  ASSERT_TRUE(engine_.memory().sequences().Fork(held, owner, forks));
  for (const SequenceHandle fork : forks) {
    ASSERT_TRUE(engine_.memory().sequences().SetOwner(fork, owner, layout::kSequenceRetained, 0));
  }
  (void)LooksSince();
  const ReceivedCompletion reply = Call(sibling_, Make(Verb::kDropRetained));
  EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
  EXPECT_EQ(reply.As<wire::DropRetainedReply>().count, 600u);
  EXPECT_TRUE(engine_.memory().sequences().RetainedOf(OwnerId{kOwn}).empty());
  EXPECT_TRUE(engine_.memory().sequences().Query(held));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ServiceGrowthTest,
                         testing::Values(Size{.sequences = 1'000, .snapshots = 50},
                                         Size{.sequences = 15'000, .snapshots = 800}),
                         [](const auto& tested) { return std::to_string(tested.param.sequences); });

}  // namespace
}  // namespace kvd
