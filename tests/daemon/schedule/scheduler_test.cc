#include <gmock/gmock.h>

#include "tests/daemon/support/scheduler_fixture.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SchedulerTest, AGenerationCommitsEveryStreamedTokenIncludingTheLast) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", 4));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  EXPECT_EQ(streamed.text, "defg");
  ASSERT_TRUE(streamed.last);
  ASSERT_EQ(streamed.last->code(), Code::kOk);
  const auto result = streamed.last->value<wire::GenerateResult>();
  EXPECT_EQ(result.predicted, 4u);
  EXPECT_EQ(result.finish, wire::kFinishLength);
  EXPECT_EQ(result.prompt_computed, 3u);
  EXPECT_EQ(Cells(sequence), 7u);
  EXPECT_EQ(Tokens(sequence).back(), FakeEngine::Letter('g'));
}

TEST_F(SchedulerTest, ASkippedLastTokenIsStreamedAndNotCommitted) {
  TestSession client(1);
  for (const std::int32_t tokens : {1, 4}) {
    SCOPED_TRACE(tokens);
    const auto request = static_cast<std::uint64_t>(tokens);
    const SequenceHandle sequence = NewSequence(client);
    ASSERT_TRUE(Generate(client, request, sequence, "abc", tokens, {}, wire::kSkipLast));
    int steps = 0;
    engine_.OnStep([&steps] { ++steps; });
    RunDry();
    const Streamed streamed = Collect(client, request);
    EXPECT_EQ(streamed.text, std::string("defg").substr(0, request));
    ASSERT_TRUE(streamed.last);
    ASSERT_EQ(streamed.last->code(), Code::kOk);
    const auto result = streamed.last->value<wire::GenerateResult>();
    EXPECT_EQ(result.predicted, request);
    EXPECT_EQ(result.finish, wire::kFinishLength);
    EXPECT_EQ(result.skipped, 1u);
    EXPECT_EQ(Cells(sequence), 2 + request);
    EXPECT_EQ(steps, tokens) << "one step fewer than with the last token";
  }
}

TEST_F(SchedulerTest, AGenerationOfZeroTokensComputesOnlyThePrompt) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", 0));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  EXPECT_TRUE(streamed.tokens.empty());
  EXPECT_EQ(streamed.last->value<wire::GenerateResult>().predicted, 0u);
  EXPECT_EQ(Cells(sequence), 3u);
}

TEST_F(SchedulerTest, AnEndTokenEndsTheGenerationAndIsCommitted) {
  TestSession client(1);
  engine_.EndAfter(FakeEngine::Letter('e'));
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", -1));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  EXPECT_EQ(streamed.text, "de");
  EXPECT_EQ(streamed.last->value<wire::GenerateResult>().finish, wire::kFinishEnd);
  EXPECT_EQ(Tokens(sequence).back(), FakeEngine::kEos);
}

TEST_F(SchedulerTest, AStopStringAcrossTokensIsFoundAndNotStreamed) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "a", 20, {"efg", "xyz"}));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  EXPECT_EQ(streamed.text, "bcd");
  EXPECT_EQ(streamed.last->value<wire::GenerateResult>().finish, wire::kFinishStop);
  EXPECT_EQ(Tokens(sequence).back(), FakeEngine::Letter('g')) << "what was drawn is committed";
}

TEST_F(SchedulerTest, TextHeldForAStopStringIsSentBeforeTheEnd) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "a", 4, {"efz"}));
  RunDry();
  EXPECT_EQ(Collect(client, 1).text, "bcde");
}

TEST_F(SchedulerTest, DecodeWritesLogitsIntoTheSegmentOfTheClient) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, sequence, {5, 6, 7}, wire::LogitsWanted::kAll));
  RunDry();
  const auto answers = client.All();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].completion.value0, 3);
  EXPECT_EQ(answers[0].completion.value1, 0);
  ASSERT_EQ(answers[0].output.size(), 3 * 64 * sizeof(float));
  const auto* const rows = reinterpret_cast<const float*>(answers[0].output.data());
  EXPECT_EQ(rows[engine_.NextToken(5)], 10.0f);
  EXPECT_EQ(rows[2 * 64 + engine_.NextToken(7)], 10.0f);
}

TEST_F(SchedulerTest, LogitsLargerThanTheArenaAreSentInPieces) {
  // The result arena of 64 KiB holds 256 rows of 64 floats; the test asks for 600 rows.
  TestSession client(1, 1000,
                     {.submission_entries = 8,
                      .completion_entries = 64,
                      .request_arena_bytes = 64u << 10,
                      .result_arena_bytes = 64u << 10});
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, sequence, std::vector<TokenId>(600, 9), wire::LogitsWanted::kAll));
  std::int64_t next_row = 0;
  bool ended = false;
  for (int round = 0; round < 100 && !ended; ++round) {
    RunDry();
    for (const ReceivedCompletion& piece : client.All()) {
      EXPECT_EQ(piece.completion.value1, next_row);
      next_row += static_cast<std::int64_t>(piece.output.size() / (64 * sizeof(float)));
      EXPECT_EQ(piece.completion.value0, next_row);
      ended = piece.is_final();
    }
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(next_row, 600);
}

TEST_F(SchedulerTest, AFullArenaStallsOnlyItsOwnClient) {
  const ChannelGeometry small{.submission_entries = 8,
                              .completion_entries = 16,
                              .request_arena_bytes = 64u << 10,
                              .result_arena_bytes = 64u << 10};
  TestSession hoarder(1, 1000, small);
  TestSession other(2);
  hoarder.HoldOutputs();
  const SequenceHandle first = NewSequence(hoarder);
  const SequenceHandle second = NewSequence(other);
  ASSERT_TRUE(Decode(hoarder, 1, first, std::vector<TokenId>(600, 9), wire::LogitsWanted::kAll));
  RunDry();
  const auto held = hoarder.All();
  ASSERT_FALSE(held.empty());
  const std::uint32_t cells = Cells(first);
  EXPECT_LT(cells, 600u);
  EXPECT_GT(hoarder.pumps(), 0) << "the io thread must ask to be rung on release";

  ASSERT_TRUE(Generate(other, 1, second, "abc", 8));
  RunDry();
  EXPECT_EQ(Collect(other, 1).text, "defghijk");
  EXPECT_EQ(Cells(first), cells) << "nothing is computed that has no room";

  hoarder.client().completions().Release(held.back().completion);
  ASSERT_TRUE(hoarder.session()->Refresh());
  EXPECT_TRUE(hoarder.session()->TakeRoomForComputing());
  RunDry();
  EXPECT_GT(Cells(first), cells);
}

TEST_F(SchedulerTest, AFullCompletionRingStallsOnlyItsOwnGeneration) {
  const ChannelGeometry small{.submission_entries = 8,
                              .completion_entries = 16,
                              .request_arena_bytes = 64u << 10,
                              .result_arena_bytes = 64u << 10};
  TestSession sleeper(1, 1000, small);
  TestSession other(2);
  const SequenceHandle first = NewSequence(sleeper);
  const SequenceHandle second = NewSequence(other);
  ASSERT_TRUE(Generate(sleeper, 1, first, "a", 100));
  ASSERT_TRUE(Generate(other, 1, second, "a", 100));
  RunDry();
  EXPECT_EQ(Collect(other, 1).tokens.size(), 100u);
  EXPECT_LT(Cells(first), 20u);

  std::size_t tokens = 0;
  bool ended = false;
  for (int round = 0; round < 100 && !ended; ++round) {
    const Streamed streamed = Collect(sleeper, 1);
    tokens += streamed.tokens.size();
    ended = streamed.last.has_value();
    RunDry();
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(tokens, 100u);
}

TEST_F(SchedulerTest, ASecondRequestOnASequenceIsBusyAndNamesTheFirst) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 41, sequence, "abc", 4));
  const Status second = Generate(client, 42, sequence, "abc", 4);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr("request 41 of session 1"));
  EXPECT_FALSE(scheduler_.CheckIdle(sequence));
  RunDry();
  EXPECT_TRUE(scheduler_.CheckIdle(sequence));
}

TEST_F(SchedulerTest, ARequestIdInFlightCannotBeUsedAgain) {
  TestSession client(1);
  ASSERT_TRUE(Generate(client, 1, NewSequence(client), "abc", 4));
  const Status second = Generate(client, 1, NewSequence(client), "abc", 4);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalidArgument);
}

TEST_F(SchedulerTest, ACancelledGenerationKeepsStreamedTokensOrSkipsItsLastOne) {
  TestSession client(1);
  for (const std::uint32_t flags : {0u, std::uint32_t{wire::kSkipLast}}) {
    SCOPED_TRACE(flags);
    const std::uint64_t request = flags + 1;
    const SequenceHandle sequence = NewSequence(client);
    ASSERT_TRUE(Generate(client, request, sequence, "abc", 1000, {}, flags));
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(scheduler_.RunOnce());
    EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{request}));
    RunDry();
    const Streamed streamed = Collect(client, request);
    ASSERT_TRUE(streamed.last);
    EXPECT_EQ(streamed.last->code(), Code::kCancelled);
    const std::size_t skipped = flags == 0 ? 0 : 1;
    EXPECT_EQ(Cells(sequence), 3 + streamed.tokens.size() - skipped);
    EXPECT_EQ(Tokens(sequence).back(), streamed.tokens.rbegin()[skipped]);
    EXPECT_FALSE(scheduler_.Cancel(client.session()->id(), RequestId{request})) << "it has ended";
  }
}

TEST_F(SchedulerTest, CancellingDuringThePromptKeepsItsCommittedChunks) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, std::string(300, 'a'), 10));
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{1}));
  RunDry();
  EXPECT_EQ(Collect(client, 1).last->code(), Code::kCancelled);
  EXPECT_EQ(Cells(sequence), 128u);
}

TEST_F(SchedulerTest, DroppingASequenceCancelsItsGeneration) {
  TestSession client(1);
  TestSession other(2);
  const SequenceHandle sequence = NewSequence(client);
  const SequenceHandle second = NewSequence(other);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", 1000));
  ASSERT_TRUE(Generate(other, 1, second, "abc", 20));
  // The sequence is dropped during a step that appends to it.
  int step = 0;
  engine_.OnStep([&] {
    if (++step != 3) return;
    scheduler_.CancelSequence(sequence);
    ASSERT_TRUE(engine_.memory().sequences().Drop(sequence));
  });
  RunDry();
  const Streamed dropped = Collect(client, 1);
  EXPECT_EQ(dropped.last->code(), Code::kCancelled);
  EXPECT_EQ(dropped.last->text(), "cancelled; the sequence was dropped");
  EXPECT_EQ(Collect(other, 1).tokens.size(), 20u);
}

TEST_F(SchedulerTest, RequestsOfAClosedSessionEndWithoutAReply) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", -1));
  ASSERT_TRUE(scheduler_.RunOnce());
  client.session()->Close();
  scheduler_.CancelSession(client.session()->id());
  RunDry();
  EXPECT_TRUE(scheduler_.CheckIdle(sequence));
  EXPECT_EQ(client.session().use_count(), 1) << "the scheduler has released it";
}

TEST_F(SchedulerTest, AFailedItemEndsOnlyItsOwnRequest) {
  TestSession bad(1);
  TestSession good(2);
  engine_.FailAt(FakeEngine::Letter('z'));
  const SequenceHandle first = NewSequence(bad);
  const SequenceHandle second = NewSequence(good);
  ASSERT_TRUE(Generate(bad, 1, first, "w", 10));
  ASSERT_TRUE(Generate(good, 1, second, "a", 10));
  RunDry();
  const Streamed failed = Collect(bad, 1);
  EXPECT_EQ(failed.last->code(), Code::kNumerical);
  EXPECT_EQ(Cells(first), 3u) << "w, x, y were committed and stay";
  EXPECT_EQ(Collect(good, 1).tokens.size(), 10u);
}

TEST_F(SchedulerTest, AFailedDecodeRemovesTheTokensThatItAppended) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, sequence, {5, 6, 7}, wire::LogitsWanted::kNone));
  RunDry();
  engine_.FailAt(99);
  std::vector<TokenId> tokens(200, 9);
  tokens[150] = 99;
  ASSERT_TRUE(Decode(client, 2, sequence, std::move(tokens), wire::LogitsWanted::kNone));
  RunDry();
  ASSERT_EQ(engine_.steps().size(), 3u);
  ASSERT_LE(engine_.steps()[1][0].tokens, 150u)
      << "the first chunk was computed, the second failed";
  EXPECT_EQ(Collect(client, 2).last->code(), Code::kNumerical);
  EXPECT_EQ(Tokens(sequence), (std::vector<TokenId>{5, 6, 7}));
  EXPECT_TRUE(scheduler_.CheckIdle(sequence));
}

class RecurrentTest : public SchedulerTest {
 protected:
  RecurrentTest() : SchedulerTest({.has_state = true}) {}
};

TEST_F(RecurrentTest, TheErrorOfAFailedDecodeSaysIfItsTokensStay) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  // Decodes of one token each keep no state to which the sequence could be rewound.
  for (std::uint64_t request = 1; request <= 3; ++request) {
    ASSERT_TRUE(Decode(client, request, sequence, {5}, wire::LogitsWanted::kNone));
    RunDry();
  }
  engine_.FailAt(63);
  engine_.FailReplays();
  std::vector<TokenId> tokens(200, 9);
  tokens[150] = 63;
  ASSERT_TRUE(Decode(client, 4, sequence, std::move(tokens), wire::LogitsWanted::kNone));
  RunDry();
  const ReceivedCompletion answer = *Collect(client, 4).last;
  EXPECT_EQ(answer.code(), Code::kNumerical);
  EXPECT_THAT(answer.text(), HasSubstr("; the appended tokens stay: the replay failed"));
  EXPECT_GT(Cells(sequence), 3u);
}

TEST_F(SchedulerTest, AFailedDecodeOfADroppedSequenceRemovesNothing) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  engine_.FailAt(99);
  engine_.OnStep([this, sequence, steps = 0]() mutable {
    if (++steps == 2) {
      EXPECT_TRUE(engine_.memory().sequences().Drop(sequence));
    }
  });
  std::vector<TokenId> tokens(200, 9);
  tokens[150] = 99;
  ASSERT_TRUE(Decode(client, 1, sequence, std::move(tokens), wire::LogitsWanted::kNone));
  RunDry();
  const ReceivedCompletion answer = *Collect(client, 1).last;
  EXPECT_EQ(answer.code(), Code::kNotFound);
  EXPECT_THAT(answer.text(), Not(HasSubstr("the appended tokens stay")));
  EXPECT_EQ(engine_.memory().Usage().live_cells, 0u);
}

TEST_F(SchedulerTest, TheTokensOfAFailedPromptAreRemoved) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, sequence, {5, 6, 7}, wire::LogitsWanted::kNone));
  RunDry();
  engine_.FailAt(FakeEngine::Letter('q'));
  ASSERT_TRUE(Generate(client, 2, sequence, std::string(150, 'a') + 'q' + std::string(49, 'a'), 5));
  RunDry();
  ASSERT_EQ(engine_.steps().size(), 3u);
  ASSERT_LE(engine_.steps()[1][0].tokens, 150u)
      << "the first chunk was computed, the second failed";
  EXPECT_EQ(Collect(client, 2).last->code(), Code::kNumerical);
  EXPECT_EQ(Tokens(sequence), (std::vector<TokenId>{5, 6, 7}));
  ASSERT_TRUE(Generate(client, 3, sequence, "a", 2)) << "the sequence is free again";
  RunDry();
  EXPECT_EQ(Cells(sequence), 6u);
}

TEST_F(SchedulerTest, DecodeRowsContinueBesideALongPrompt) {
  TestSession decoder(1);
  TestSession prompter(2);
  const SequenceHandle first = NewSequence(decoder);
  const SequenceHandle second = NewSequence(prompter);
  ASSERT_TRUE(Generate(decoder, 1, first, "a", 8));
  ASSERT_TRUE(scheduler_.RunOnce());
  ASSERT_TRUE(Generate(prompter, 1, second, std::string(500, 'a'), 1));
  RunDry();
  std::size_t mixed = 0;
  for (const auto& step : engine_.steps()) {
    if (step.size() < 2) continue;
    ++mixed;
    EXPECT_EQ(step[0].sequence, first) << "decode rows first";
    EXPECT_EQ(step[0].tokens, 1u);
    EXPECT_LE(step[1].tokens, 64u) << "a prompt is held to its chunk";
  }
  EXPECT_GE(mixed, 7u);
}

TEST_F(SchedulerTest, DivideReturnsTheNumberOfRewrittenCells) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, sequence, std::vector<TokenId>(8, 4), wire::LogitsWanted::kNone));
  RunDry();
  ASSERT_TRUE(scheduler_.Submit(std::make_unique<DivideRequest>(
      Begin(client, 2, wire::Verb::kDivide), sequence, PosRange{}, 1, 8)));
  RunDry();
  const auto answers = client.All();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].code(), Code::kOk) << answers[1].text();
}

TEST_F(SchedulerTest, ProgressIsReportedIfRequested) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  RequestOrigin origin = Begin(client, 1, wire::Verb::kDecode);
  origin.wants_progress = true;
  ASSERT_TRUE(scheduler_.Submit(std::make_unique<DecodeRequest>(std::move(origin), sequence, Pos{0},
                                                                std::vector<TokenId>(300, 4),
                                                                wire::LogitsWanted::kLast, 64)));
  RunDry();
  std::vector<std::uint64_t> done;
  for (const ReceivedCompletion& received : client.All()) {
    if (received.is_final()) continue;
    const auto piece = wire::ParsePiece(received.output);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->kind, wire::kPieceProgress);
    EXPECT_EQ(piece->total, 300u);
    done.push_back(piece->done);
  }
  EXPECT_EQ(done, (std::vector<std::uint64_t>{128, 256}));
}

TEST_F(SchedulerTest, StoppingEndsEveryRequestCancelled) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  engine_.OnStep([this, steps = 0]() mutable {
    if (++steps == 4) scheduler_.Stop();
  });
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", -1));
  scheduler_.Run();
  EXPECT_EQ(Collect(client, 1).last->code(), Code::kCancelled);
  EXPECT_FALSE(Generate(client, 2, sequence, "abc", 1)) << "nothing is taken any more";
}

class SmallPoolTest : public SchedulerTest {
 protected:
  SmallPoolTest() : SchedulerTest({.cells = 64, .ubatch_tokens = 16}) {}
};

TEST_F(SmallPoolTest, AFullPoolEndsTheRequestAndKeepsCommittedTokens) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", 100));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kNoSpace);
  EXPECT_FALSE(streamed.last->text().empty());
  EXPECT_EQ(Cells(sequence), 64u);
}

TEST_F(SmallPoolTest, ARefusedRequestLeavesItsShareOfTheStepToOthers) {
  TestSession client(1);
  const SequenceHandle large = NewSequence(client);
  const SequenceHandle small = NewSequence(client);
  ASSERT_TRUE(Decode(client, 1, large, std::vector<TokenId>(65, 5), wire::LogitsWanted::kNone));
  ASSERT_TRUE(Decode(client, 2, small, std::vector<TokenId>(20, 6), wire::LogitsWanted::kNone));
  RunDry();
  EXPECT_EQ(Cells(large), 0u);
  EXPECT_EQ(Cells(small), 20u) << "it does not wait for a later request";
}

}  // namespace
}  // namespace kvd
