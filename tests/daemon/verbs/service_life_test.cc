// Tests sequences that expire and ephemeral sequences, through the service and Expiries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "daemon/sessions/expiries.h"
#include "tests/daemon/support/service_fixture.h"
#include "tests/daemon/support/simulated_loop.h"

namespace kvd {
namespace {

using test::kOwn;
using test::ReceivedCompletion;
using wire::Verb;

class ServiceLifeTest : public test::ServiceTest {
 protected:
  Memory& memory() { return engine_.memory(); }
  SequenceInfo Info(SequenceHandle sequence) { return *memory().sequences().Query(sequence); }
  bool Exists(SequenceHandle sequence) { return memory().sequences().Query(sequence).has_value(); }
  ReceivedCompletion SetLife(test::TestSession& client, SequenceHandle sequence,
                             std::uint32_t ttl_seconds, std::uint16_t flags = 0) {
    return Call(client,
                Make(wire::SetLifeArgs{.sequence = sequence, .ttl_seconds = ttl_seconds}, flags));
  }
  std::uint64_t NowAnd(std::uint64_t seconds) { return NowUnixMs() + seconds * 1000; }

  std::vector<SequenceHandle> cancelled_;
  test::SimulatedLoop loop_{[](std::size_t) { return std::size_t{0}; }};
};

TEST_F(ServiceLifeTest, CreateForkAndPublishSetTheTimeOfExpiry) {
  const std::uint64_t before = NowAnd(100);
  wire::Submission create = Make(wire::CreateArgs{.ttl_seconds = 100});
  const SequenceHandle made = Call(client_, create).sequence();
  EXPECT_GE(Info(made).owner.life.expires_unix_ms, before);
  EXPECT_LE(Info(made).owner.life.expires_unix_ms, NowAnd(100));
  wire::Submission fork = Make(wire::ForkArgs{.sequence = made});
  const SequenceHandle plain = Call(client_, fork).sequence();
  EXPECT_EQ(Info(plain).owner.life.expires_unix_ms, 0u) << "a fork inherits no time of expiry";
  fork = Make(wire::ForkArgs{.sequence = made, .ttl_seconds = 50});
  EXPECT_NE(Info(Call(client_, fork).sequence()).owner.life.expires_unix_ms, 0u);
  wire::Submission publish = Make(wire::PublishArgs{.sequence = plain, .ttl_seconds = 7});
  const ReceivedCompletion published = CallText(client_, publish, "brief");
  ASSERT_EQ(published.code(), Code::kOk) << Text(published);
  EXPECT_NE(Info(published.sequence()).owner.life.expires_unix_ms, 0u);
}

TEST_F(ServiceLifeTest, ExpiredSequencesAndSnapshotsAreDroppedAndOthersStay) {
  const SequenceHandle stays = Filled(client_, 10);
  const SequenceHandle later = Filled(client_, 10);
  const SequenceHandle goes = Filled(client_, 10);
  ASSERT_EQ(SetLife(client_, later, 1000).code(), Code::kOk);
  ASSERT_EQ(SetLife(client_, goes, 10).code(), Code::kOk);
  wire::Submission publish = Make(wire::PublishArgs{.sequence = goes, .ttl_seconds = 10});
  const SequenceHandle published = CallText(client_, publish, "brief").sequence();
  Expiries expiries(loop_, memory(), [this](SequenceHandle one) { cancelled_.push_back(one); });
  EXPECT_FALSE(expiries.DropSome(NowUnixMs()));
  EXPECT_TRUE(Exists(goes)) << "its time has not come";
  EXPECT_FALSE(expiries.DropSome(NowAnd(11)));
  EXPECT_FALSE(Exists(goes));
  EXPECT_FALSE(Exists(published));
  EXPECT_FALSE(memory().snapshots().Find("brief", OwnerOf(kOwn)));
  EXPECT_TRUE(Exists(stays));
  EXPECT_TRUE(Exists(later));
  EXPECT_EQ(expiries.dropped(), 2u);
  EXPECT_THAT(cancelled_, testing::UnorderedElementsAre(goes, published));
  // Without a time of expiry, the sequence stays.
  ASSERT_EQ(SetLife(client_, later, 0).code(), Code::kOk);
  EXPECT_FALSE(expiries.DropSome(NowAnd(5000)));
  EXPECT_TRUE(Exists(later));
  EXPECT_EQ(memory().sequences().NextExpiry(), std::nullopt);
}

TEST_F(ServiceLifeTest, ManyExpiredSequencesAreDroppedInPortions) {
  std::vector<SequenceHandle> made;
  wire::Submission create = Make(wire::CreateArgs{.ttl_seconds = 1});
  for (std::size_t i = 0; i < Sequences::kListedAtOnce + 5; ++i) {
    made.push_back(Call(client_, create).sequence());
    ASSERT_NE(made.back(), SequenceHandle::kNone);
  }
  Expiries expiries(loop_, memory(), [](SequenceHandle) {});
  EXPECT_TRUE(expiries.DropSome(NowAnd(2)));
  EXPECT_EQ(expiries.dropped(), Sequences::kListedAtOnce);
  EXPECT_FALSE(expiries.DropSome(NowAnd(2)));
  EXPECT_EQ(expiries.dropped(), made.size());
}

TEST_F(ServiceLifeTest, ARetainedSequenceExpiresToo) {
  const SequenceHandle sequence = Filled(client_, 40);
  ASSERT_EQ(SetLife(client_, sequence, 10).code(), Code::kOk);
  ASSERT_EQ(Call(client_, Make(Verb::kRetain, sequence)).code(), Code::kOk);
  ASSERT_TRUE(Exists(sequence));
  Expiries expiries(loop_, memory(), [](SequenceHandle) {});
  EXPECT_FALSE(expiries.DropSome(NowAnd(11)));
  EXPECT_FALSE(Exists(sequence));
}

TEST_F(ServiceLifeTest, NothingOfAnEphemeralSequenceIsReusedOrRetained) {
  wire::Submission create = Make(Verb::kCreate);
  create.flags = wire::kFlagEphemeral;
  const SequenceHandle secret = Call(client_, create).sequence();
  const std::vector<TokenId> prompt(40, 5);
  ASSERT_EQ(CallTokens(client_, Make(Verb::kDecode, secret), prompt).code(), Code::kOk);
  RunDry();
  (void)client_.All();
  ASSERT_EQ(Cells(secret), 40u);
  EXPECT_TRUE(Info(secret).owner.life.is_ephemeral);
  const SequenceHandle second = Create(client_);
  ASSERT_EQ(CallTokens(client_, Make(Verb::kDecode, second), prompt).code(), Code::kOk);
  RunDry();
  (void)client_.All();
  EXPECT_EQ(memory().sequences().QueryUse(second)->shared_cells, 0u) << "the prompt took no cells";
  const SequenceHandle third = Create(client_);
  ASSERT_EQ(CallTokens(client_, Make(Verb::kDecode, third), prompt).code(), Code::kOk);
  RunDry();
  (void)client_.All();
  EXPECT_GT(memory().sequences().QueryUse(third)->shared_cells, 0u) << "of an ordinary sequence";
  // A fork and a copy of an ephemeral sequence are ephemeral.
  wire::Submission fork = Make(wire::ForkArgs{.sequence = secret});
  EXPECT_TRUE(Info(Call(client_, fork).sequence()).owner.life.is_ephemeral);
  const SequenceHandle copy = Create(client_);
  wire::Submission copying = Make(wire::CopyRangeArgs{.source = secret, .destination = copy});
  ASSERT_EQ(Call(client_, copying).code(), Code::kOk);
  EXPECT_TRUE(Info(copy).owner.life.is_ephemeral);
  ASSERT_EQ(Call(client_, Make(Verb::kRetain, secret)).code(), Code::kOk);
  EXPECT_FALSE(Exists(secret));
  // A sequence becomes ephemeral and never stops being so; a retained one does not become so.
  ASSERT_EQ(SetLife(client_, second, 0, wire::kFlagEphemeral).code(), Code::kOk);
  ASSERT_EQ(SetLife(client_, second, 0).code(), Code::kOk);
  EXPECT_TRUE(Info(second).owner.life.is_ephemeral);
  const SequenceHandle retained = Filled(client_, 50);
  ASSERT_EQ(Call(client_, Make(Verb::kRetain, retained)).code(), Code::kOk);
  ASSERT_TRUE(Exists(retained));
  ExpectRefused(SetLife(client_, retained, 0, wire::kFlagEphemeral), Code::kInvalidArgument,
                "a retained sequence is not ephemeral");
}

TEST_F(ServiceLifeTest, OnlyTheOwnerSetsTheTimeOfExpiry) {
  const SequenceHandle mine = Filled(client_, 10);
  ExpectRefused(SetLife(stranger_, mine, 5), Code::kNotFound, "no such sequence");
  ExpectRefused(SetLife(sibling_, mine, 5), Code::kPermission, "force flag");
  EXPECT_EQ(SetLife(sibling_, mine, 5, wire::kFlagForce).code(), Code::kOk);
  const SequenceHandle published =
      CallText(client_, Make(Verb::kPublish, mine), "fixed").sequence();
  ExpectRefused(SetLife(client_, published, 5), Code::kPermission, "immutable");
}

}  // namespace
}  // namespace kvd
