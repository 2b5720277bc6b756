#include "daemon/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "daemon/decode_request.h"
#include "daemon/defrag_request.h"
#include "daemon/encode_request.h"
#include "daemon/generation_request.h"
#include "tests/daemon/support/fake_engine.h"
#include "tests/daemon/support/test_session.h"

namespace kvd {
namespace {

using test::FakeEngine;
using test::ReceivedCompletion;
using test::TestSession;
using ::testing::HasSubstr;

class SchedulerTest : public ::testing::Test {
 protected:
  explicit SchedulerTest(const test::FakeEngineOptions& options = {}, double step_seconds_max = 0.0)
      : engine_(options),
        scheduler_(engine_, options.vocab_size,
                   {.prefill_chunk_tokens = 64,
                    .step_seconds_max = step_seconds_max,
                    .now = [this] { return engine_.now(); }}) {}

  SequenceHandle NewSequence(const TestSession& client) {
    return *engine_.memory().sequences().Create(
        {.id = OwnerId{client.session()->uid()}, .session = client.session()->id()});
  }
  RequestOrigin Begin(TestSession& client, std::uint64_t request, wire::Verb verb) {
    wire::Submission submission{};
    submission.request = request;
    submission.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
    (void)client.Send(submission);
    return {.session = client.session(), .request = static_cast<RequestId>(request), .verb = verb};
  }
  Status Decode(TestSession& client, std::uint64_t request, SequenceHandle sequence,
                std::vector<TokenId> tokens, wire::LogitsWanted wanted) {
    const Pos pos = engine_.memory().sequences().Query(sequence)->next_pos;
    return scheduler_.Submit(
        std::make_unique<DecodeRequest>(Begin(client, request, wire::Verb::kDecode), sequence, pos,
                                        std::move(tokens), wanted, engine_.config().vocab_size));
  }
  // Greedy; `prompt` of letters.
  Status Generate(TestSession& client, std::uint64_t request, SequenceHandle sequence,
                  std::string_view prompt, std::int32_t predict_max,
                  std::vector<std::string> stops = {}) {
    wire::GenerateRequest generate;
    generate.params = {.token_count = static_cast<std::uint32_t>(prompt.size()),
                       .predict_max = predict_max,
                       .sampling = DefaultSamplingAt(0.0f),
                       .logprob_count = 0,
                       .seed = 1,
                       .flags = 0,
                       .bias_count = 0,
                       .stop_count = static_cast<std::uint32_t>(stops.size()),
                       .stop_bytes = 0};
    for (const char letter : prompt) generate.tokens.push_back(FakeEngine::Letter(letter));
    generate.stops = std::move(stops);
    const SequenceInfo info = *engine_.memory().sequences().Query(sequence);
    auto made = GenerationRequest::Create(Begin(client, request, wire::Verb::kGenerate), sequence,
                                          info.next_pos, info.cell_count, std::move(generate), {},
                                          engine_.vocabulary(), engine_.config().vocab_size);
    if (!made) return std::unexpected(made.error());
    return scheduler_.Submit(std::move(*made));
  }
  void RunDry() {
    while (scheduler_.RunOnce()) {
    }
  }
  std::uint32_t Cells(SequenceHandle sequence) {
    return engine_.memory().sequences().Query(sequence)->cell_count;
  }
  std::vector<TokenId> Tokens(SequenceHandle sequence) {
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    EXPECT_TRUE(
        engine_.memory().holds().ReadCells(sequence, 0, Cells(sequence), &tokens, &positions));
    return tokens;
  }

  struct Streamed {
    std::string text;
    std::vector<TokenId> tokens;
    std::optional<ReceivedCompletion> last;
  };
  static Streamed Collect(TestSession& client, std::uint64_t request) {
    Streamed streamed;
    for (const ReceivedCompletion& received : client.All()) {
      if (received.completion.request != request) continue;
      if (received.is_final()) {
        streamed.last = received;
        continue;
      }
      const auto piece = wire::ParsePiece(received.output);
      EXPECT_TRUE(piece) << piece.error().message;
      streamed.text += piece->text;
      streamed.tokens.insert(streamed.tokens.end(), piece->tokens.begin(), piece->tokens.end());
    }
    return streamed;
  }

  FakeEngine engine_;
  Scheduler scheduler_;
};

TEST_F(SchedulerTest, GenerationCommitsEveryTokenItStreamedTheLastIncluded) {
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

TEST_F(SchedulerTest, PredictingNothingOnlyComputesThePrompt) {
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

TEST_F(SchedulerTest, AStopStringIsFoundAcrossTokenBordersAndNotShown) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "a", 20, {"efg", "xyz"}));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  EXPECT_EQ(streamed.text, "bcd");
  EXPECT_EQ(streamed.last->value<wire::GenerateResult>().finish, wire::kFinishStop);
  EXPECT_EQ(Tokens(sequence).back(), FakeEngine::Letter('g')) << "what was drawn is committed";
}

TEST_F(SchedulerTest, TextHeldBackForAStopStringComesBeforeTheEnd) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "a", 4, {"efz"}));
  RunDry();
  EXPECT_EQ(Collect(client, 1).text, "bcde");
}

TEST_F(SchedulerTest, DecodeWritesItsLogitsIntoTheClientsSegment) {
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

TEST_F(SchedulerTest, LogitsLargerThanTheArenaComeInPieces) {
  // 64 KiB hold 256 rows of 64 floats; 600 rows are wanted.
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

TEST_F(SchedulerTest, AFullArenaStallsItsOwnClientAlone) {
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

TEST_F(SchedulerTest, AFullCompletionRingStallsItsOwnGenerationAlone) {
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

TEST_F(SchedulerTest, ARequestIdInFlightIsNotTakenTwice) {
  TestSession client(1);
  ASSERT_TRUE(Generate(client, 1, NewSequence(client), "abc", 4));
  const Status second = Generate(client, 1, NewSequence(client), "abc", 4);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInvalidArgument);
}

TEST_F(SchedulerTest, ACancelledGenerationKeepsWhatItStreamed) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", 1000));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{1}));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kCancelled);
  EXPECT_EQ(Cells(sequence), 3 + streamed.tokens.size());
  EXPECT_EQ(Tokens(sequence).back(), streamed.tokens.back());
  EXPECT_FALSE(scheduler_.Cancel(client.session()->id(), RequestId{1})) << "it has ended";
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

TEST_F(SchedulerTest, DroppingASequenceUnderItsGenerationEndsThatCancelled) {
  TestSession client(1);
  TestSession other(2);
  const SequenceHandle sequence = NewSequence(client);
  const SequenceHandle second = NewSequence(other);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", 1000));
  ASSERT_TRUE(Generate(other, 1, second, "abc", 20));
  // Dropped while a step computes on it.
  int step = 0;
  engine_.OnStep([&] {
    if (++step != 3) return;
    scheduler_.CancelSequence(sequence);
    ASSERT_TRUE(engine_.memory().sequences().Drop(sequence));
  });
  RunDry();
  EXPECT_EQ(Collect(client, 1).last->code(), Code::kCancelled);
  EXPECT_EQ(Collect(other, 1).tokens.size(), 20u);
}

TEST_F(SchedulerTest, RequestsOfAClosedSessionEndUnheard) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", -1));
  ASSERT_TRUE(scheduler_.RunOnce());
  client.session()->Close();
  scheduler_.CancelSession(client.session()->id());
  RunDry();
  EXPECT_TRUE(scheduler_.CheckIdle(sequence));
  EXPECT_EQ(client.session().use_count(), 1) << "the scheduler has let go";
}

TEST_F(SchedulerTest, AFailedItemEndsItsRequestAndNobodyElses) {
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

TEST_F(SchedulerTest, ADecodeThatFailsInTheMiddleTakesBackWhatItAppended) {
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

TEST_F(SchedulerTest, APromptThatFailsInTheMiddleIsTakenBack) {
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

TEST_F(SchedulerTest, DecodeRowsGoOnBesideALongPrompt) {
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

TEST_F(SchedulerTest, DivideAnswersHowManyCellsWereRewritten) {
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

TEST_F(SchedulerTest, ProgressIsReportedWhereAskedFor) {
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

TEST_F(SmallPoolTest, AFullPoolEndsTheRequestWithNumbersAndKeepsWhatWasCommitted) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Generate(client, 1, sequence, "abc", -1));
  RunDry();
  const Streamed streamed = Collect(client, 1);
  ASSERT_TRUE(streamed.last);
  EXPECT_EQ(streamed.last->code(), Code::kNoSpace);
  EXPECT_FALSE(streamed.last->text().empty());
  EXPECT_EQ(Cells(sequence), 64u);
}

// A third of the blocks' cells are live; a decode that goes on meanwhile waits for a slice at most.
class DefragTest : public SchedulerTest {
 protected:
  DefragTest() : SchedulerTest({.cells = 128 * 32, .ubatch_tokens = 128}) {}
  void FillSparsely(TestSession& client) {
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(Decode(client, static_cast<std::uint64_t>(1000 + i), NewSequence(client),
                         std::vector<TokenId>(10, 5), wire::LogitsWanted::kNone));
      RunDry();
    }
    (void)client.All();
  }
  std::uint32_t UsedBlocks() {
    const PoolUsage usage = engine_.memory().Usage();
    return usage.total_blocks - usage.free_blocks;
  }
};

TEST_F(DefragTest, ARequestPacksThePoolBetweenStepsAndReports) {
  TestSession client(1, 1000);
  FillSparsely(client);
  EXPECT_EQ(UsedBlocks(), 100u);
  ASSERT_TRUE(
      scheduler_.Submit(std::make_unique<DefragRequest>(Begin(client, 1, wire::Verb::kDefrag))));
  const Status second =
      scheduler_.Submit(std::make_unique<DefragRequest>(Begin(client, 2, wire::Verb::kDefrag)));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kBusy);
  RunDry();
  const auto all = client.All();
  ASSERT_EQ(all.size(), 1u);
  wire::DefragReply reply{};
  ASSERT_EQ(all[0].output.size(), sizeof reply);
  std::memcpy(&reply, all[0].output.data(), sizeof reply);
  EXPECT_EQ(UsedBlocks(), 32u);
  EXPECT_EQ(reply.blocks_freed, 68u);
  EXPECT_GE(reply.cells_moved, 900u);
  EXPECT_EQ(reply.cells_settled, 0u);
}

TEST_F(DefragTest, SequencesWithManyShiftsAreSettled) {
  TestSession client(1, 1000);
  const SequenceHandle sequence = NewSequence(client);
  ASSERT_TRUE(Decode(client, 5, sequence, std::vector<TokenId>(60, 5), wire::LogitsWanted::kNone));
  RunDry();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(
        engine_.memory().sequences().AddPositions(sequence, {Pos{10 * i + 10 + i}, kPosEnd}, 1));
  }
  EXPECT_EQ(engine_.memory().sequences().QueryUse(sequence)->delta_count, 6u);
  ASSERT_TRUE(
      scheduler_.Submit(std::make_unique<DefragRequest>(Begin(client, 6, wire::Verb::kDefrag))));
  RunDry();
  EXPECT_EQ(engine_.memory().sequences().QueryUse(sequence)->delta_count, 1u);
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->next_pos.value, 65);
}

TEST_F(DefragTest, AboveTheThresholdItBeginsByItself) {
  TestSession client(1, 1000);
  FillSparsely(client);
  Scheduler automatic(engine_, 64, {.defrag_threshold = 0.3});
  for (int i = 0; i < 2000 && UsedBlocks() > 32; ++i) (void)automatic.RunOnce();
  // Small slices may leave a block that is too full to be worth emptying.
  EXPECT_LE(UsedBlocks(), 33u);
}

// Work between steps. The clock is the engine's: a token takes what a test says.
class WorkTest : public SchedulerTest {
 protected:
  static constexpr double kStepSeconds = 0.1;
  explicit WorkTest(bool has_cross_attention = false)
      : SchedulerTest({.cells = 8192, .has_cross_attention = has_cross_attention}, kStepSeconds) {}

  SequenceHandle Filled(TestSession& client, std::size_t cells) {
    const SequenceHandle sequence = NewSequence(client);
    EXPECT_TRUE(Decode(client, ++last_request_, sequence, std::vector<TokenId>(cells, 5),
                       wire::LogitsWanted::kNone));
    RunDry();
    (void)client.All();
    return sequence;
  }
  std::uint64_t Divide(TestSession& client, SequenceHandle sequence) {
    EXPECT_TRUE(scheduler_.Submit(
        std::make_unique<DivideRequest>(Begin(client, ++last_request_, wire::Verb::kDivide),
                                        sequence, PosRange{}, 2, Cells(sequence))));
    return last_request_;
  }
  std::uint64_t Encode(TestSession& client, SequenceHandle sequence, std::size_t tokens) {
    EXPECT_TRUE(scheduler_.Submit(std::make_unique<EncodeRequest>(
        Begin(client, ++last_request_, wire::Verb::kEncode), sequence,
        std::vector<TokenId>(tokens, 5), FakeEngine::kBos)));
    return last_request_;
  }
  // Tokens of work and of steps since.
  struct Tally {
    std::size_t work = 0;
    std::size_t steps = 0;
  };
  Tally Count() const {
    Tally tally;
    for (const auto& work : engine_.works()) tally.work += work.tokens;
    for (const auto& step : engine_.steps()) {
      for (const auto& item : step) tally.steps += item.tokens;
    }
    return tally;
  }
  // From the given slice on: what is done between two steps fits beside a decode row, and every round
  // has that row.
  void ExpectWorkFitsBesideDecodeRows(std::size_t first_slice, double seconds_per_token) {
    std::map<std::size_t, std::size_t> by_step;
    const auto works = engine_.works();
    ASSERT_GT(works.size(), first_slice);
    for (std::size_t i = first_slice; i < works.size(); ++i)
      by_step[works[i].step] += works[i].tokens;
    for (const auto& [step, tokens] : by_step) {
      EXPECT_LE(static_cast<double>(tokens) * seconds_per_token, kStepSeconds)
          << "behind step " << step;
    }
    EXPECT_GE(by_step.size(), 40u);
  }

  // Of a user who divides and one whose prompt is computed.
  void ExpectEvenShares(double seconds_per_cell) {
    TestSession divider(1, 1001);
    TestSession prompter(2, 1002);
    const SequenceHandle divided = Filled(divider, 2400);
    const Tally before = Count();
    engine_.SetCosts({.step_token = 0.001, .work_token = seconds_per_cell});
    Divide(divider, divided);
    ASSERT_TRUE(Decode(prompter, ++last_request_, NewSequence(prompter),
                       std::vector<TokenId>(2400, 5), wire::LogitsWanted::kNone));
    constexpr int kRounds = 8;
    for (int round = 0; round < kRounds; ++round) ASSERT_TRUE(scheduler_.RunOnce());
    const Tally after = Count();
    // A step has 128 tokens; the time of half of them is the other user's.
    const double prompt_seconds = static_cast<double>(after.steps - before.steps) * 0.001;
    const double work_seconds = static_cast<double>(after.work - before.work) * seconds_per_cell;
    EXPECT_NEAR(work_seconds, prompt_seconds, 0.2 * prompt_seconds);
    EXPECT_GE(prompt_seconds, 0.4 * kRounds * 0.128);
  }

  std::uint64_t last_request_ = 100;
};

class CrossWorkTest : public WorkTest {
 protected:
  CrossWorkTest() : WorkTest(true) {}
};

TEST_F(WorkTest, AStreamOfDivisionsLeavesDecodeRowsOfAnotherUserTheirTime) {
  TestSession decoder(1, 1001);
  TestSession divider(2, 1002);
  std::vector<SequenceHandle> sequences;
  for (int i = 0; i < 8; ++i) sequences.push_back(Filled(divider, 300));
  engine_.SetCosts({.step_token = 0.001, .work_token = 0.002});
  ASSERT_TRUE(Generate(decoder, 1, NewSequence(decoder), "a", 500));
  ASSERT_TRUE(scheduler_.RunOnce());
  for (const SequenceHandle sequence : sequences) Divide(divider, sequence);
  RunDry();
  ExpectWorkFitsBesideDecodeRows(/*first_slice=*/1, 0.002);
  for (const ReceivedCompletion& answer : divider.All()) {
    EXPECT_EQ(answer.code(), Code::kOk) << answer.text();
    EXPECT_EQ(answer.completion.value0, 300);
  }
  EXPECT_EQ(Collect(decoder, 1).tokens.size(), 500u);
}

TEST_F(CrossWorkTest, AStreamOfEncodedTextsLeavesDecodeRowsOfAnotherUserTheirTime) {
  TestSession decoder(1, 1001);
  TestSession encoder(2, 1002);
  const SequenceHandle decoded = NewSequence(decoder);
  Encode(decoder, decoded, 3);
  RunDry();
  (void)decoder.All();
  engine_.SetCosts({.step_token = 0.001, .work_token = 0.002});
  ASSERT_TRUE(Generate(decoder, 1, decoded, "a", 500));
  ASSERT_TRUE(scheduler_.RunOnce());
  const std::size_t before = engine_.works().size();
  for (int i = 0; i < 8; ++i) Encode(encoder, NewSequence(encoder), 300);
  RunDry();
  // What a text costs is learnt from the first slices.
  ExpectWorkFitsBesideDecodeRows(before + 8, 0.002);
  for (const ReceivedCompletion& answer : encoder.All()) EXPECT_EQ(answer.code(), Code::kOk);
}

TEST_F(WorkTest, SequencesThatMustBeRewrittenBeforeTheirStepLeaveDecodeRowsTheirTime) {
  TestSession decoder(1, 1001);
  TestSession shifter(2, 1002);
  std::vector<SequenceHandle> sequences;
  for (int i = 0; i < 8; ++i) {
    sequences.push_back(Filled(shifter, 300));
    ASSERT_TRUE(engine_.memory().sequences().AddPositions(sequences.back(), {Pos{10}, kPosEnd}, 7));
  }
  engine_.PrepareShifted();
  engine_.SetCosts({.step_token = 0.001, .work_token = 0.002});
  ASSERT_TRUE(Generate(decoder, 1, NewSequence(decoder), "a", 500));
  ASSERT_TRUE(scheduler_.RunOnce());
  for (const SequenceHandle sequence : sequences) {
    ASSERT_TRUE(Decode(shifter, ++last_request_, sequence, {5}, wire::LogitsWanted::kNone));
  }
  RunDry();
  ExpectWorkFitsBesideDecodeRows(/*first_slice=*/1, 0.002);
  EXPECT_EQ(Count().work, 8u * 300u);
  const auto answers = shifter.All();
  EXPECT_EQ(answers.size(), sequences.size());
  for (const ReceivedCompletion& answer : answers) EXPECT_EQ(answer.code(), Code::kOk);
  for (const SequenceHandle sequence : sequences) {
    EXPECT_EQ(engine_.CellsToPrepare(sequence), 0u);
    EXPECT_EQ(engine_.memory().sequences().Query(sequence)->next_pos.value, 308);
  }
  EXPECT_EQ(Collect(decoder, 1).tokens.size(), 500u);
}

TEST_F(WorkTest, ACancelledDecodeHasNotPreparedItsSequenceAndFreesItsCells) {
  TestSession client(1, 1001);
  const SequenceHandle sequence = Filled(client, 1000);
  ASSERT_TRUE(engine_.memory().sequences().AddPositions(sequence, {Pos{10}, kPosEnd}, 7));
  engine_.PrepareShifted();
  const std::uint32_t free_blocks = engine_.memory().Usage().free_blocks;
  const std::uint64_t request = ++last_request_;
  ASSERT_TRUE(Decode(client, request, sequence, {5}, wire::LogitsWanted::kNone));
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_LT(engine_.memory().Usage().free_blocks, free_blocks);
  EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{request}));
  RunDry();
  EXPECT_EQ(client.All().back().code(), Code::kCancelled);
  EXPECT_EQ(engine_.memory().Usage().free_blocks, free_blocks);
  EXPECT_EQ(engine_.memory().sequences().QueryUse(sequence)->delta_count, 2u);
}

TEST_F(WorkTest, ASequenceThatIsDroppedWhileItIsPreparedEndsItsDecode) {
  TestSession client(1, 1001);
  const std::uint32_t free_blocks = engine_.memory().Usage().free_blocks;
  const SequenceHandle sequence = Filled(client, 1000);
  ASSERT_TRUE(engine_.memory().sequences().AddPositions(sequence, {Pos{10}, kPosEnd}, 7));
  engine_.PrepareShifted();
  ASSERT_TRUE(Decode(client, ++last_request_, sequence, {5}, wire::LogitsWanted::kNone));
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  ASSERT_TRUE(engine_.memory().sequences().Drop(sequence));
  RunDry();
  EXPECT_EQ(client.All().back().code(), Code::kNotFound);
  EXPECT_EQ(engine_.memory().Usage().free_blocks, free_blocks);
}

TEST_F(WorkTest, WhileNobodyDecodesWorkMayTakeAWholeStep) {
  TestSession client(1, 1001);
  const SequenceHandle sequence = Filled(client, 1000);
  Divide(client, sequence);
  for (int round = 0; round < 4; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(engine_.works().back().tokens, 128u);
}

TEST_F(WorkTest, TwoUsersShareEvenlyWhenOneDividesAndOnePrefills) { ExpectEvenShares(0.001); }

TEST_F(WorkTest, WhatIsSharedIsTimeWhereCellsAreCheaperThanTokens) { ExpectEvenShares(0.00025); }

TEST_F(WorkTest, ACancelledDivisionHasChangedNothingAndFreesItsCells) {
  TestSession client(1, 1001);
  const SequenceHandle sequence = Filled(client, 1000);
  const std::uint32_t free_blocks = engine_.memory().Usage().free_blocks;
  const std::uint64_t request = Divide(client, sequence);
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_LT(engine_.memory().Usage().free_blocks, free_blocks);
  EXPECT_FALSE(scheduler_.CheckIdle(sequence));
  EXPECT_TRUE(scheduler_.Cancel(client.session()->id(), RequestId{request}));
  RunDry();
  EXPECT_EQ(client.All().back().code(), Code::kCancelled);
  EXPECT_EQ(engine_.memory().Usage().free_blocks, free_blocks);
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->next_pos.value, 1000);
  EXPECT_TRUE(scheduler_.CheckIdle(sequence));
}

TEST_F(WorkTest, ASequenceThatIsDroppedUnderItsDivisionFreesItsCells) {
  TestSession client(1, 1001);
  const std::uint32_t free_blocks = engine_.memory().Usage().free_blocks;
  const SequenceHandle sequence = Filled(client, 1000);
  Divide(client, sequence);
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  ASSERT_TRUE(engine_.memory().sequences().Drop(sequence));
  RunDry();
  EXPECT_EQ(client.All().back().code(), Code::kConflict);
  EXPECT_EQ(engine_.memory().Usage().free_blocks, free_blocks);
}

TEST_F(CrossWorkTest, TextsThatAreBegunAreBoundedAndEndWithTheirSessions) {
  constexpr std::size_t kUsers = 7;
  constexpr std::size_t kTextsOfEach = 3;
  std::vector<std::unique_ptr<TestSession>> users;
  for (std::size_t user = 0; user < kUsers; ++user) {
    users.push_back(
        std::make_unique<TestSession>(user + 1, static_cast<std::uint32_t>(1001 + user)));
  }
  for (auto& user : users) {
    for (std::size_t text = 0; text < kTextsOfEach; ++text) Encode(*user, NewSequence(*user), 400);
  }
  std::size_t most = 0;
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(scheduler_.RunOnce());
    most = std::max(most, engine_.open_texts());
  }
  EXPECT_EQ(most, Scheduler::kWorksMax);
  users[0]->session()->Close();
  scheduler_.CancelSession(users[0]->session()->id());
  EXPECT_TRUE(scheduler_.HasRequests(users[0]->session()->id()));
  while (scheduler_.RunOnce()) EXPECT_LE(engine_.open_texts(), Scheduler::kWorksMax);
  EXPECT_FALSE(scheduler_.HasRequests(users[0]->session()->id()));
  EXPECT_EQ(engine_.open_texts(), 0u);
  for (std::size_t user = 1; user < kUsers; ++user) {
    const auto answers = users[user]->All();
    EXPECT_EQ(answers.size(), kTextsOfEach);
    for (const ReceivedCompletion& answer : answers) EXPECT_EQ(answer.code(), Code::kOk);
  }
}

TEST_F(CrossWorkTest, TheBuffersOfATextAreCountedWhileItIsOnItsWay) {
  constexpr std::uint32_t kUid = 1001;
  const std::uint64_t text_bytes = EncoderBytes(engine_.config(), 400);
  ASSERT_GT(text_bytes, 400u);
  Quotas limits;
  limits.others.held_bytes = text_bytes;
  Shares shares(limits, OwnerOf(1000u), true);
  const auto account = shares.AccountOf(OwnerOf(kUid));
  TestSession client(1, kUid, {}, {}, {.account = account});
  const auto encode = [&](SequenceHandle sequence, std::size_t tokens) {
    RequestOrigin origin = Begin(client, ++last_request_, wire::Verb::kEncode);
    ASSERT_TRUE(scheduler_.Submit(std::make_unique<EncodeRequest>(
        std::move(origin), sequence, std::vector<TokenId>(tokens, 5), FakeEngine::kBos)));
  };
  encode(NewSequence(client), 400);
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(account->held(Resource::kHeldBytes), text_bytes);
  RunDry();
  EXPECT_EQ(account->held(Resource::kHeldBytes), 0u);
  EXPECT_EQ(client.All().back().code(), Code::kOk);

  const SequenceHandle refused = NewSequence(client);
  encode(refused, 401);
  RunDry();
  const ReceivedCompletion answer = client.All().back();
  EXPECT_EQ(answer.code(), Code::kNoSpace);
  EXPECT_NE(answer.text().find("held bytes"), std::string::npos) << answer.text();
  EXPECT_EQ(account->held(Resource::kHeldBytes), 0u);

  encode(NewSequence(client), 400);
  ASSERT_TRUE(scheduler_.RunOnce());
  scheduler_.CancelSession(client.session()->id());
  RunDry();
  EXPECT_EQ(account->held(Resource::kHeldBytes), 0u);
}

TEST_F(CrossWorkTest, AUserWithManyTextsDoesNotKeepAnotherOnesFromBeginning) {
  std::vector<std::unique_ptr<TestSession>> users;
  for (std::uint32_t user = 0; user < Scheduler::kWorksMax; ++user) {
    users.push_back(std::make_unique<TestSession>(user + 1, 1001 + user));
    for (int text = 0; text < 20; ++text) Encode(*users.back(), NewSequence(*users.back()), 100);
  }
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  TestSession late(9, 1099);
  Encode(late, NewSequence(late), 100);
  // One text of each of the others may go before it, and one of each beside it: 8 * 100 tokens.
  const std::size_t before = Count().work;
  while (late.All().empty() && scheduler_.RunOnce()) {
  }
  EXPECT_LE(Count().work - before, 2 * Scheduler::kWorksMax * 100);
}

}  // namespace
}  // namespace kvd
