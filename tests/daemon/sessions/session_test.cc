#include <gtest/gtest.h>

#include "shm/verb_table.h"
#include "tests/daemon/support/test_session.h"

namespace kvd {
namespace {

using test::TestSession;

wire::Submission Ping(std::uint64_t request) {
  wire::Submission submission{};
  submission.request = request;
  submission.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
  return submission;
}

wire::Completion AnswerTo(std::uint64_t request) {
  wire::Completion completion{};
  completion.request = request;
  completion.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
  return completion;
}

constexpr ChannelGeometry kSmall{.submission_entries = 8,
                                 .completion_entries = 16,
                                 .request_arena_bytes = 64u << 10,
                                 .result_arena_bytes = 64u << 10};

TEST(SessionTest, ShortRepliesOvertakeLogitsInFlight) {
  TestSession client(1);
  (void)client.Send(Ping(1));
  (void)client.Send(Ping(2));
  const auto logits = client.session()->ReserveLogits(4096, 4, /*more_follows=*/false);
  ASSERT_TRUE(logits);
  EXPECT_EQ(logits->rows, 4u);

  const std::vector<std::byte> handle(8, std::byte{7});
  EXPECT_TRUE(client.session()->TryFinal(AnswerTo(2), handle));
  auto answer = client.Next();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->completion.request, 2u);
  EXPECT_EQ(answer->output, handle);

  std::ranges::fill(logits->piece.bytes, std::byte{9});
  client.session()->PublishLogits(*logits, AnswerTo(1));
  answer = client.Next();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->completion.request, 1u);
  EXPECT_EQ(answer->output, std::vector<std::byte>(4 * 4096, std::byte{9}));
}

TEST(SessionTest, SubmissionsCountForTheOwnerUntilTheirFinalReplies) {
  Quotas quotas;
  quotas.others.requests_in_flight = 3;
  Shares shares(quotas, OwnerOf(1000u), true);
  const auto account = shares.AccountOf(OwnerOf(1001u));
  auto held = std::make_unique<TestSession>(1, 1001, ChannelGeometry{}, std::nullopt,
                                            SessionShares{.account = account});
  TestSession& first = *held;
  TestSession second(2, 1001, {}, {}, {.account = account});
  const auto in_flight = [&] { return account->held(Resource::kRequests); };
  EXPECT_TRUE(first.Send(Ping(1)).check);
  EXPECT_TRUE(first.Send(Ping(2)).check);
  EXPECT_TRUE(second.Send(Ping(1)).check);
  const ReceivedSubmission refused = second.Send(Ping(2), std::vector<std::byte>(100));
  ASSERT_FALSE(refused.check);
  EXPECT_EQ(refused.check.error().code, Code::kNoSpace);
  EXPECT_EQ(refused.check.error().message,
            "requests in flight: 1 more wanted, owner 1001 holds 3 of 3");
  EXPECT_TRUE(refused.payload.empty()) << "it is not copied";
  wire::Submission cancel = wire::MakeSubmission(wire::CancelArgs{.request = RequestId{1}});
  cancel.request = 3;
  EXPECT_TRUE(second.Send(cancel).check) << "it makes room";
  EXPECT_TRUE(second.session()->TryFinal(AnswerTo(3), {}));
  EXPECT_EQ(in_flight(), 3u);
  EXPECT_TRUE(second.session()->TryFinal(AnswerTo(2), {}));
  EXPECT_EQ(in_flight(), 3u) << "it never counted";
  const auto logits = first.session()->ReserveLogits(4096, 1, /*more_follows=*/false);
  ASSERT_TRUE(logits);
  first.session()->PublishLogits(*logits, AnswerTo(1));
  EXPECT_EQ(in_flight(), 2u);
  EXPECT_TRUE(second.session()->TryMore(AnswerTo(1), {}));
  EXPECT_EQ(in_flight(), 2u);
  EXPECT_TRUE(second.session()->TryFinal(AnswerTo(1), {}));
  EXPECT_EQ(in_flight(), 1u);
  EXPECT_TRUE(second.Send(Ping(3)).check);
  first.session()->Close();
  EXPECT_EQ(in_flight(), 2u) << "what is in flight is still worked on";
  EXPECT_TRUE(first.session()->TryFinal(AnswerTo(2), {}));
  held.reset();
  EXPECT_EQ(in_flight(), 1u);
}

TEST(SessionTest, ArenasCountUntilTheLastRequestReleasesTheSession) {
  Shares shares({}, OwnerOf(1000u), true);
  const OwnerId owner = OwnerOf(1001u);
  std::optional<TestSession> client;
  client.emplace(
      1, 1001, ChannelGeometry{}, std::nullopt,
      SessionShares{.account = shares.AccountOf(owner),
                    .connection = *shares.Take(owner, Resource::kConnections, 1),
                    .request_arena = *shares.Take(owner, Resource::kRequestArenaBytes, 4096),
                    .result_arena = *shares.Take(owner, Resource::kResultArenaBytes, 8192)});
  EXPECT_EQ(shares.ListHeld(Resource::kConnections).at(owner), 1u);
  EXPECT_EQ(shares.ListHeld(Resource::kRequestArenaBytes).at(owner), 4096u);
  EXPECT_EQ(shares.ListHeld(Resource::kResultArenaBytes).at(owner), 8192u);
  std::shared_ptr<Session> in_flight = client->session();
  in_flight->Close();
  client.reset();
  EXPECT_TRUE(shares.ListHeld(Resource::kConnections).empty());
  EXPECT_EQ(shares.ListHeld(Resource::kRequestArenaBytes).at(owner), 4096u) << "it is mapped";
  EXPECT_EQ(shares.ListHeld(Resource::kResultArenaBytes).at(owner), 8192u);
  in_flight.reset();
  EXPECT_TRUE(shares.ListHeld(Resource::kRequestArenaBytes).empty());
  EXPECT_TRUE(shares.ListHeld(Resource::kResultArenaBytes).empty());
}

TEST(SessionTest, LargeRepliesWaitForLogitsInFlight) {
  TestSession client(1);
  (void)client.Send(Ping(1));
  (void)client.Send(Ping(2));
  const auto logits = client.session()->ReserveLogits(4096, 1, false);
  ASSERT_TRUE(logits);
  const std::vector<std::byte> large(2048);
  EXPECT_FALSE(client.session()->TryFinal(AnswerTo(2), large));
  EXPECT_EQ(client.pumps(), 0);
  client.session()->PublishLogits(*logits, AnswerTo(1));
  EXPECT_EQ(client.pumps(), 1);
  EXPECT_TRUE(client.session()->TryFinal(AnswerTo(2), large));
}

TEST(SessionTest, LogitsAndRepliesOfOneStepArePublishedInOrder) {
  TestSession client(1);
  for (std::uint64_t request = 1; request <= 4; ++request) (void)client.Send(Ping(request));
  const auto first = client.session()->ReserveLogits(4096, 1, false);
  const auto second = client.session()->ReserveLogits(4096, 1, false);
  ASSERT_TRUE(first && second);
  const std::vector<std::byte> small(16);
  EXPECT_TRUE(client.session()->TryFinal(AnswerTo(3), small));
  client.session()->PublishLogits(*first, AnswerTo(1));
  EXPECT_FALSE(client.session()->TryFinal(AnswerTo(4), small)) << "it would come out of order";
  client.session()->PublishLogits(*second, AnswerTo(2));
  EXPECT_TRUE(client.session()->TryFinal(AnswerTo(4), small));
  EXPECT_EQ(client.All().size(), 4u);
}

TEST(SessionTest, AFullArenaGrantsFewerRowsAndThenNone) {
  TestSession client(1, 1000, kSmall);
  client.HoldOutputs();
  (void)client.Send(Ping(1));
  const auto some = client.session()->ReserveLogits(10000, 100, false);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->rows, 6u);
  EXPECT_TRUE(some->holds_slot) << "what does not hold all rows is not final";
  client.session()->PublishLogits(*some, AnswerTo(1));
  EXPECT_FALSE(client.session()->ReserveLogits(10000, 1, false));

  auto answer = client.Next();
  ASSERT_TRUE(answer);
  client.client().completions().Release(answer->completion);
  EXPECT_TRUE(client.session()->ReserveLogits(10000, 1, false));
}

TEST(SessionTest, ASubmissionWithoutRoomForItsReplyStaysInTheRing) {
  TestSession client(1, 1000, kSmall);
  // The completion ring has 16 slots. The 16 unanswered submissions reserve them; the 17th waits.
  for (std::uint64_t request = 1; request <= 16; ++request) (void)client.Send(Ping(request));
  auto room = client.client().submissions().Reserve(0);
  ASSERT_TRUE(room && *room);
  (void)client.client().submissions().Submit(Ping(17));
  ReceivedSubmission received;
  auto taken = client.session()->TakeSubmission(received);
  ASSERT_TRUE(taken);
  EXPECT_FALSE(*taken);
  EXPECT_TRUE(client.session()->submission_waits());

  EXPECT_TRUE(client.session()->TryFinal(AnswerTo(1), {}));
  ASSERT_TRUE(client.Next());
  ASSERT_TRUE(client.session()->Refresh());
  taken = client.session()->TakeSubmission(received);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(*taken);
  EXPECT_EQ(received.submission.request, 17u);
}

TEST(SessionTest, SlotsReservedForLogitsAreNotGivenToReplies) {
  TestSession client(1, 1000, kSmall);
  for (std::uint64_t request = 1; request <= 15; ++request) (void)client.Send(Ping(request));
  const auto logits = client.session()->ReserveLogits(1024, 1, /*more_follows=*/true);
  ASSERT_TRUE(logits);
  EXPECT_FALSE(client.session()->TryMore(AnswerTo(2), {}));
  client.session()->PublishLogits(*logits, AnswerTo(1));
  EXPECT_EQ(client.All().size(), 1u);
}

TEST(SessionTest, FreeRoomIsReportedOnceAfterARelease) {
  TestSession client(1, 1000, kSmall);
  client.HoldOutputs();
  (void)client.Send(Ping(1));
  const auto all = client.session()->ReserveLogits(60000, 1, true);
  ASSERT_TRUE(all);
  client.session()->PublishLogits(*all, AnswerTo(1));
  EXPECT_FALSE(client.session()->ReserveLogits(60000, 1, true));
  client.session()->WantRoom();
  EXPECT_EQ(client.pumps(), 1);
  ASSERT_TRUE(client.session()->Refresh());
  EXPECT_FALSE(client.session()->TakeRoomForComputing()) << "nothing was released yet";

  auto answer = client.Next();
  client.client().completions().Release(answer->completion);
  ASSERT_TRUE(client.session()->Refresh());
  EXPECT_TRUE(client.session()->TakeRoomForComputing());
  EXPECT_FALSE(client.session()->TakeRoomForComputing());
}

TEST(SessionTest, RoomSeenByTheEngineThreadKeepsTheIoThreadAwake) {
  TestSession client(1, 1000, kSmall);
  client.HoldOutputs();
  for (std::uint64_t request = 1; request <= 3; ++request) (void)client.Send(Ping(request));
  const std::vector<std::byte> half(40000);
  ASSERT_TRUE(client.session()->TryFinal(AnswerTo(1), half));
  ASSERT_TRUE(client.session()->Refresh());
  // The io thread finds no room for an answer. Before the io thread sleeps, the client releases an
  // output and the engine thread reads the release cursor.
  EXPECT_FALSE(client.session()->TryFinal(AnswerTo(2), half));
  client.client().completions().Release(client.Next()->completion);
  EXPECT_TRUE(client.session()->TryMore(AnswerTo(3), std::vector<std::byte>(30000)));
  const auto sleeps = client.session()->Sleep(/*answer_waits=*/true);
  ASSERT_TRUE(sleeps);
  EXPECT_FALSE(*sleeps);
  ASSERT_TRUE(client.session()->Refresh());
  const auto now = client.session()->Sleep(/*answer_waits=*/true);
  ASSERT_TRUE(now);
  EXPECT_TRUE(*now) << "nothing new since";
}

TEST(SessionTest, CompletionsOfAClosedSessionAreDiscarded) {
  TestSession client(1);
  (void)client.Send(Ping(1));
  client.session()->Close();
  EXPECT_TRUE(client.session()->TryFinal(AnswerTo(1), {}));
  EXPECT_FALSE(client.Next());
}

}  // namespace
}  // namespace kvd
