// Tests of generations and prompts that wait for room in the pool, over a fake engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/daemon/support/scheduler_fixture.h"

namespace kvd {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint32_t kBlock = 32;

// A pool of four blocks of 32 cells.
class RoomTest : public SchedulerTest {
 protected:
  RoomTest() : SchedulerTest({.cells = 4 * kBlock, .ubatch_tokens = 64}) {
    room_wait_ms_ = 0;  // as the scheduler's options say
  }

  static std::string Prompt(std::size_t letters) { return std::string(letters, 'a'); }
  // The values of the client's pieces of kPieceParking.
  static std::vector<std::uint64_t> ParkingPieces(TestSession& client) {
    std::vector<std::uint64_t> values;
    for (const ReceivedCompletion& received : client.All()) {
      if (received.is_final()) continue;
      const auto piece = wire::ParsePiece(received.output);
      if (piece && piece->kind == wire::kPieceParking) values.push_back(piece->done);
    }
    return values;
  }
  void Drop(SequenceHandle sequence) { ASSERT_TRUE(engine_.memory().sequences().Drop(sequence)); }
};

TEST_F(RoomTest, AGenerationWithoutRoomWaitsAndEndsWithItsWholeAnswer) {
  TestSession client(1);
  const SequenceHandle first = NewSequence(client);
  const SequenceHandle second = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, first, Prompt(60), 30));   // takes its third block first
  ASSERT_TRUE(Generate(client, 2, second, Prompt(22), 20));  // waits for its second block
  RunDry();
  const Streamed before = Collect(client, 2);
  EXPECT_FALSE(before.last);
  EXPECT_EQ(Cells(first), 90u);
  EXPECT_EQ(Cells(second), 32u) << "it has kept its cells";
  Drop(first);
  RunDry();
  const Streamed after = Collect(client, 2);
  ASSERT_TRUE(after.last);
  EXPECT_EQ(after.last->code(), Code::kOk);
  EXPECT_EQ(before.text + after.text, "bcdefghijklmnopqrstu");
  EXPECT_EQ(Cells(second), 42u);
}

TEST_F(RoomTest, RequestsAreCountedByWhatTheyDoAndShownWithTheirTokens) {
  engine_.SetCosts({.step_token = 0.1, .work_token = 0.1});
  TestSession client(1);
  TestSession other(2, 1001);
  const SequenceHandle parked = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, parked, Prompt(2 * kBlock), 2 * kBlock + 10));
  RunDry();
  EXPECT_EQ(scheduler_.StandingOf(parked).state, wire::kRequestParked);
  EXPECT_EQ(scheduler_.StandingOf(parked).tokens.done, 4 * kBlock + 1) << "the last has no cell";
  EXPECT_EQ(scheduler_.StandingOf(parked).tokens.wanted, 4 * kBlock + 10);
  const SequenceHandle waiting = NewSequence(other);
  ASSERT_TRUE(Generate(other, 1, waiting, "ab", 4));
  EXPECT_EQ(scheduler_.counts().waiting, 1u) << "the engine thread has not taken it yet";
  EXPECT_EQ(scheduler_.StandingOf(waiting).state, wire::kRequestWaits);
  RunDry();
  EXPECT_EQ(scheduler_.counts().parked, 2u);
  Drop(parked);
  scheduler_.RunOnce();
  scheduler_.RunOnce();
  EXPECT_EQ(scheduler_.counts().parked, 0u);
  EXPECT_EQ(scheduler_.counts().computing, 1u);
  EXPECT_EQ(scheduler_.StandingOf(waiting).state, wire::kRequestComputes);
  RunDry();
  EXPECT_EQ(scheduler_.counts().computing, 0u);
  EXPECT_EQ(scheduler_.StandingOf(waiting).state, wire::kRequestNone);
}

TEST_F(RoomTest, AParkedRequestIsShownWithTheTimeForWhichItHasWaited) {
  engine_.SetCosts({.step_token = 0.1, .work_token = 0.1});
  TestSession client(1);
  TestSession other(2, 1001);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(3 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle running = NewSequence(other);
  ASSERT_TRUE(Generate(other, 1, running, "ab", 21));
  scheduler_.RunOnce();
  const SequenceHandle parked = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, parked, "ab", 4));
  scheduler_.RunOnce();
  EXPECT_EQ(scheduler_.StandingOf(parked).parked_for.count(), 100) << "one token";
  RunDry();
  EXPECT_EQ(scheduler_.StandingOf(parked).parked_for.count(), 2100);
}

TEST_F(RoomTest, AClientThatWantsToKnowIsToldWhenItsRequestIsParkedAndWhenItHasRoom) {
  TestSession client(1);
  TestSession other(2, 1001);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(4 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle told = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, told, "ab", 4, {}, wire::kTellParking));
  const SequenceHandle silent = NewSequence(other);
  ASSERT_TRUE(Generate(other, 1, silent, "ab", 4));
  RunDry();
  EXPECT_EQ(ParkingPieces(client), std::vector<std::uint64_t>{1});
  Drop(held);
  RunDry();
  EXPECT_EQ(ParkingPieces(client), std::vector<std::uint64_t>{0});
  EXPECT_TRUE(ParkingPieces(other).empty());
}

TEST_F(RoomTest, WhatAnOwnerHasSentLaterTakesNoRoomBeforeItsRequestThatWaits) {
  TestSession client(1);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(2 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle earlier = NewSequence(client);
  const SequenceHandle later = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, earlier, Prompt(2 * kBlock), 8));
  RunDry();
  ASSERT_TRUE(Generate(client, 3, later, Prompt(8), 4));
  RunDry();
  EXPECT_EQ(Cells(earlier), 2 * kBlock);
  EXPECT_EQ(Cells(later), 0u);
  ASSERT_TRUE(engine_.memory().sequences().RemoveRange(held, {Pos{kBlock}, kPosEnd}));
  RunDry();
  EXPECT_EQ(Cells(earlier), 2 * kBlock + 8) << "it gets the only free block";
  EXPECT_EQ(Cells(later), 0u);
  Drop(earlier);
  RunDry();
  EXPECT_EQ(Cells(later), 12u);
}

TEST_F(RoomTest, AnotherOwnerTakesRoomThatARequestOfSeveralBlocksWaitsFor) {
  TestSession client(1);
  TestSession other(2, 1001);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(3 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle running = NewSequence(other);
  ASSERT_TRUE(Generate(other, 1, running, Prompt(8), 8));
  const SequenceHandle waiting = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, waiting, Prompt(2 * kBlock), 4));
  RunDry();
  EXPECT_EQ(Cells(running), 16u);
}

TEST_F(RoomTest, APromptThatThePoolCannotHoldFailsBeforeItsFirstToken) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, Prompt(4 * kBlock + 1), 4));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kNoSpace);
  EXPECT_THAT(streamed.last->text(),
              HasSubstr("no room for 129 tokens: the pool has 128 cells (--cells), 128 free"));
  EXPECT_EQ(Cells(sequence), 0u);
  EXPECT_TRUE(engine_.steps().empty());
}

TEST_F(RoomTest, APromptWaitsBeforeItsFirstTokenUntilAllOfItHasRoom) {
  TestSession client(1);
  const SequenceHandle running = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, running, Prompt(kBlock), 2 * kBlock));
  const SequenceHandle waiting = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, waiting, Prompt(3 * kBlock + 1), 4));
  for (int round = 0; round < 4; ++round) scheduler_.RunOnce();
  EXPECT_FALSE(Collect(client, 2).last);
  RunDry();
  EXPECT_EQ(Cells(running), 3 * kBlock);
  EXPECT_EQ(Cells(waiting), 0u);
  EXPECT_FALSE(Collect(client, 2).last);
  Drop(running);
  RunDry();
  EXPECT_EQ(Cells(waiting), 3 * kBlock + 1 + 4);
}

TEST_F(RoomTest, AnAnswerWithoutALimitThatHasAllTheRoomEndsWithItsLengthAndSaysSo) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", -1));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  ASSERT_TRUE(streamed.last);
  ASSERT_EQ(streamed.last->code(), Code::kOk);
  const auto result = streamed.last->value<wire::GenerateResult>();
  EXPECT_EQ(result.finish, wire::kFinishLength);
  EXPECT_EQ(result.is_full, 1);
  EXPECT_EQ(result.skipped, 1) << "the last token has no cell";
  EXPECT_EQ(Cells(sequence), 4 * kBlock);
  EXPECT_EQ(streamed.tokens.size(), 4 * kBlock - 3 + 1);
  EXPECT_EQ(result.predicted, streamed.tokens.size());
}

TEST_F(RoomTest, OfTwoAnswersWithoutALimitTheEarlierOneGetsTheRoomAndThenTheOther) {
  TestSession client(1);
  TestSession other(2);
  const SequenceHandle first = NewSequence(client);
  const SequenceHandle second = NewSequence(other);
  ASSERT_TRUE(Generate(client, 1, first, "abc", -1));
  ASSERT_TRUE(Generate(other, 2, second, "abc", -1));
  RunDry();
  const Streamed of_first = Collect(client, 1);
  ASSERT_TRUE(of_first.last);
  EXPECT_EQ(of_first.last->value<wire::GenerateResult>().is_full, 1);
  EXPECT_EQ(Cells(first), 4 * kBlock);
  const Streamed before = Collect(other, 2);
  EXPECT_FALSE(before.last) << "it has given its cells back, so it has not filled the room";
  Drop(first);
  RunDry();
  const Streamed after = Collect(other, 2);
  ASSERT_TRUE(after.last);
  EXPECT_EQ(after.last->code(), Code::kOk);
  EXPECT_EQ(after.last->value<wire::GenerateResult>().is_full, 1);
  EXPECT_EQ(Cells(second), 4 * kBlock);
  EXPECT_EQ(before.text + after.text, of_first.text);
}

TEST_F(RoomTest, AnAnswerThatItsClientDoesNotReadGivesItsCellsBack) {
  TestSession client(1);
  TestSession unread(2, 1000, {.submission_entries = 8, .completion_entries = 16});
  const SequenceHandle running = NewSequence(client);
  const SequenceHandle stalled = NewSequence(unread);
  ASSERT_TRUE(Generate(unread, 1, stalled, Prompt(20), 40));
  RunDry();
  EXPECT_THAT(Cells(stalled), testing::AllOf(testing::Gt(kBlock), testing::Lt(60u)));
  ASSERT_TRUE(Generate(client, 2, running, Prompt(20), 100));
  RunDry();
  const Streamed streamed = Collect(client, 2);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kOk);
  EXPECT_EQ(Cells(running), 120u);

  Drop(running);
  std::size_t tokens = 0;
  bool has_ended = false;
  for (int reads = 0; reads < 10 && !has_ended; ++reads) {
    const Streamed part = Collect(unread, 1);
    tokens += part.tokens.size();
    has_ended = part.last.has_value();
    EXPECT_EQ(has_ended ? part.last->code() : Code::kOk, Code::kOk);
    RunDry();
  }
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(tokens, 40u);
  EXPECT_EQ(Cells(stalled), 60u);
}

TEST_F(RoomTest, ADecodeFailsAtOnce) {
  TestSession client(1);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(4 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 2, sequence, {3}, wire::LogitsWanted::kNone));
  RunDry();
  const Streamed streamed = Collect(client, 2);
  EXPECT_EQ(streamed.last->code(), Code::kNoSpace);
  EXPECT_THAT(streamed.last->text(), HasSubstr("no room for 1 token: the pool has 128 cells"));
}

TEST_F(RoomTest, TheErrorCountsPinnedSequencesAndSnapshotsAsSuchAndNoRetainedOnes) {
  TestSession client(1);
  std::vector<SequenceHandle> held;
  for (std::uint64_t at = 0; at < 3; ++at) {
    held.push_back(NewSequence(client));
    ASSERT_TRUE(Decode(client, 1 + at, held[at],
                       std::vector<TokenId>(kBlock, static_cast<TokenId>(3 + at)),
                       wire::LogitsWanted::kNone));
  }
  RunDry();
  Sequences& sequences = engine_.memory().sequences();
  const SequenceOwner owner = sequences.Query(held[0])->owner;
  const SequenceOwner none{.id = owner.id};
  ASSERT_TRUE(
      sequences.SetOwner(held[0], none, layout::kSequenceRetained | layout::kSequencePinned, 0));
  ASSERT_TRUE(sequences.SetOwner(held[1], none, layout::kSequenceRetained, 0));
  ASSERT_TRUE(engine_.memory().snapshots().Publish(held[2], owner, "news", false, false));
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 9, sequence, std::vector<TokenId>(3 * kBlock, 9), wire::LogitsWanted::kNone));
  RunDry();
  EXPECT_THAT(Collect(client, 9).last->text(),
              HasSubstr("32 free, 32 reclaimable; 2 live sequences of this owner hold 32, 0 of "
                        "other owners 0, 1 pinned 32, 1 snapshots 32;"));
}

TEST_F(RoomTest, ACancelEndsARequestThatWaits) {
  TestSession client(1);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(3 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, sequence, Prompt(20), 40));
  RunDry();
  EXPECT_FALSE(Collect(client, 2).last);
  EXPECT_EQ(Cells(sequence), kBlock);
  EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{2}));
  RunDry();
  const Streamed streamed = Collect(client, 2);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kCancelled);
  EXPECT_EQ(Cells(sequence), kBlock);
}

TEST_F(RoomTest, AWaitEndsWhenNoRequestOfTheOwnerHasProgressedForItsTime) {
  engine_.SetCosts({.step_token = 0.1, .work_token = 0.1});
  TestSession client(1);
  TestSession other(2, 1001);
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(
      Decode(client, 1, held, std::vector<TokenId>(2 * kBlock, 3), wire::LogitsWanted::kNone));
  RunDry();
  const SequenceHandle running = NewSequence(other);
  ASSERT_TRUE(Generate(other, 1, running, "ab", 29));
  room_wait_ms_ = 2000;
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, sequence, Prompt(30), 40));
  // The clock advances by 0.1 s with each token of the other owner.
  RunDry();
  EXPECT_EQ(Cells(running), 31u);
  const Streamed streamed = Collect(client, 2);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kNoSpace);
  EXPECT_THAT(
      streamed.last->text(),
      AllOf(StartsWith("no room for 1 token after 2000 ms: the pool has 128 cells (--cells), 0 "
                       "free, 0 reclaimable; 2 live sequences of this owner hold 96, 1 of other "
                       "owners "),
            EndsWith(", 0 pinned 0, 0 snapshots 0; kvctl ps and kvctl snapshots list them, kvctl "
                     "rm removes them")));
  EXPECT_EQ(Cells(sequence), kBlock) << "committed tokens stay";
}

// The queue finds room in the pool, and each step finds that something else lacks.
TEST_F(RoomTest, AWaitAlsoEndsIfNoStepFindsTheRoomThatTheQueueHasFound) {
  engine_.SetCosts({.step_token = 0.1, .work_token = 0.1});
  engine_.LackRoomAt(FakeEngine::Letter('a'));
  TestSession client(1);
  TestSession other(2, 1001);
  const SequenceHandle running = NewSequence(other);
  ASSERT_TRUE(Generate(other, 1, running, "bc", 40));
  room_wait_ms_ = 2000;
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 2, sequence, "a", 4));
  RunDry();
  EXPECT_EQ(Cells(running), 42u);
  const Streamed streamed = Collect(client, 2);
  ASSERT_TRUE(streamed.last) << "it waits for ever";
  EXPECT_EQ(streamed.last->code(), Code::kNoSpace);
  EXPECT_THAT(streamed.last->text(), HasSubstr("no room for 1 token after 2000 ms: no list units"));
}

// Forks of one context that cross a block's border, in a pool that lacks blocks for all.
TEST_F(RoomTest, OfForksThatCannotGoOnTheLastOneGivesItsCellsBackAndComputesThemAgain) {
  TestSession client(1);
  const SequenceHandle context = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, context, std::vector<TokenId>(31, 3), wire::LogitsWanted::kNone));
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(Decode(client, 2, held, {3}, wire::LogitsWanted::kNone));
  RunDry();
  std::vector<SequenceHandle> forks(2);
  ASSERT_TRUE(engine_.memory().sequences().Fork(
      context, {.id = client.session()->owner(), .session = client.session()->id()}, forks));
  for (std::uint64_t at = 0; at < forks.size(); ++at) {
    ASSERT_TRUE(Generate(client, 3 + at, forks[at], "a", 40));
  }
  RunDry();
  std::vector<TokenId> wanted(32, 3);
  for (int drawn = 1; drawn <= 40; ++drawn) wanted.push_back(engine_.NextToken(wanted.back()));
  EXPECT_EQ(Tokens(forks[0]), wanted);
  EXPECT_EQ(Cells(forks[1]), 31u) << "it has given back its block";
  const Streamed before = Collect(client, 4);
  EXPECT_FALSE(before.last);
  EXPECT_EQ(engine_.memory().sequences().Query(forks[1])->given_count, 32u);
  SequenceHandle fork = SequenceHandle::kNone;
  EXPECT_EQ(
      engine_.memory().sequences().Fork(forks[1], {.id = OwnerId{1000}}, {&fork, 1}).error().code,
      Code::kBusy);

  Drop(forks[0]);
  RunDry();
  EXPECT_EQ(Tokens(forks[1]), wanted);
  const Streamed after = Collect(client, 4);
  ASSERT_TRUE(after.last);
  EXPECT_EQ(after.last->code(), Code::kOk);
  std::vector<TokenId> streamed = before.tokens;
  streamed.insert(streamed.end(), after.tokens.begin(), after.tokens.end());
  EXPECT_EQ(streamed, std::vector<TokenId>(wanted.begin() + 32, wanted.end()))
      << "no token comes twice";
  EXPECT_EQ(engine_.memory().sequences().Query(forks[1])->given_count, 0u);
}

TEST_F(RoomTest, AnAnswerWithoutALimitDoesNotEndFullBeforeItsTokensHaveCellsAgain) {
  TestSession client(1);
  const SequenceHandle context = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, context, std::vector<TokenId>(31, 3), wire::LogitsWanted::kNone));
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(Decode(client, 2, held, {3}, wire::LogitsWanted::kNone));
  RunDry();
  std::vector<SequenceHandle> forks(2);
  ASSERT_TRUE(engine_.memory().sequences().Fork(
      context, {.id = client.session()->owner(), .session = client.session()->id()}, forks));
  ASSERT_TRUE(Generate(client, 3, forks[0], "a", 40));
  ASSERT_TRUE(Generate(client, 4, forks[1], "a", -1));
  RunDry();
  ASSERT_EQ(engine_.memory().sequences().Query(forks[1])->given_count, 32u);
  EXPECT_FALSE(Collect(client, 4).last) << "no other request computes, and it lacks cells";
  Drop(forks[0]);
  RunDry();
  const Streamed streamed = Collect(client, 4);
  ASSERT_TRUE(streamed.last);
  ASSERT_EQ(streamed.last->code(), Code::kOk);
  EXPECT_EQ(streamed.last->value<wire::GenerateResult>().is_full, 1);
  EXPECT_EQ(engine_.memory().sequences().Query(forks[1])->given_count, 0u);
  EXPECT_EQ(Cells(forks[1]), 3 * kBlock);
}

TEST_F(RoomTest, ACancelledRequestThatHasGivenCellsBackLeavesASequenceThatEndsWithItsCells) {
  TestSession client(1);
  const SequenceHandle context = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, context, std::vector<TokenId>(31, 3), wire::LogitsWanted::kNone));
  const SequenceHandle held = NewSequence(client);
  ASSERT_TRUE(Decode(client, 2, held, {3}, wire::LogitsWanted::kNone));
  RunDry();
  std::vector<SequenceHandle> forks(2);
  ASSERT_TRUE(engine_.memory().sequences().Fork(
      context, {.id = client.session()->owner(), .session = client.session()->id()}, forks));
  for (std::uint64_t at = 0; at < forks.size(); ++at) {
    ASSERT_TRUE(Generate(client, 3 + at, forks[at], "a", 40));
  }
  RunDry();
  ASSERT_EQ(engine_.memory().sequences().Query(forks[1])->given_count, 32u);
  EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{4}));
  RunDry();
  EXPECT_EQ(Collect(client, 4).last->code(), Code::kCancelled);
  EXPECT_EQ(engine_.memory().sequences().Query(forks[1])->given_count, 0u);
  EXPECT_EQ(Cells(forks[1]), 31u);
  EXPECT_TRUE(engine_.memory().sequences().RemoveRange(forks[1], {Pos{30}, kPosEnd}));
}

}  // namespace
}  // namespace kvd
