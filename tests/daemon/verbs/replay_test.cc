// Tests removals, forks and copies on a model with recurrent states. The fake engine replays one
// token per call.

#include "shm/payload_codec.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::ReceivedCompletion;
using test::ServiceTest;
using wire::Verb;

class ReplayTest : public ServiceTest {
 protected:
  ReplayTest() : ServiceTest({.has_state = true}) {}

  // Submits the request, runs the scheduler until it is idle and returns the client's last
  // completion.
  test::ReceivedCompletion Answer(wire::Submission submission,
                                  std::span<const std::byte> payload = {}) {
    const ReceivedCompletion direct = Call(client_, submission, payload);
    EXPECT_EQ(direct.code(), Code::kOk) << Text(direct);
    RunDry();
    auto all = client_.All();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? test::ReceivedCompletion{} : all.back();
  }
  std::uint32_t FreeSlots() { return engine_.memory().Usage().free_state_slots; }
  std::uint32_t Live() { return engine_.memory().Usage().live_sequences; }
};

TEST_F(ReplayTest, PromptsAndStepsEndAtCheckpoints) {
  const SequenceHandle sequence = Filled(client_, 40);
  std::vector<std::size_t> tokens;
  for (const auto& step : engine_.steps()) tokens.push_back(step.at(0).tokens);
  EXPECT_EQ(tokens, (std::vector<std::size_t>{16, 16, 7, 1}));
  EXPECT_EQ(engine_.memory().Usage().checkpoint_slots, 2u)
      << "the fake keeps only prompt ends; a repeated prompt resumes before its last token";
  const ReceivedCompletion removed =
      Call(client_, Make(wire::RemoveRangeArgs{.sequence = sequence, .range = {Pos{40}, kPosEnd}}));
  EXPECT_EQ(removed.As<wire::EditReply>().cells, 0u);
}

TEST_F(ReplayTest, WithoutACheckpointARemovalReplaysFromTheStart) {
  const SequenceHandle sequence = Filled(client_, 40);
  const auto answer =
      Answer(Make(wire::RemoveRangeArgs{.sequence = sequence, .range = {Pos{30}, kPosEnd}}));
  ASSERT_EQ(answer.code(), Code::kOk);
  const auto edited = answer.As<wire::EditReply>();
  EXPECT_EQ(edited.cells, 10u);
  EXPECT_EQ(edited.replayed, 30u);
  EXPECT_EQ(Cells(sequence), 30u);
  EXPECT_EQ(FreeSlots(), 31u);
}

TEST_F(ReplayTest, ARemovalBackToACheckpointNeedsNoReplay) {
  const SequenceHandle sequence = Filled(client_, 20);
  wire::Submission more = Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{20}});
  (void)CallTokens(client_, more, std::vector<TokenId>(7, 5));
  RunDry();
  (void)client_.All();
  const ReceivedCompletion reply =
      Call(client_, Make(wire::RemoveRangeArgs{.sequence = sequence, .range = {Pos{20}, kPosEnd}}));
  ASSERT_EQ(reply.code(), Code::kOk);
  const auto edited = reply.As<wire::EditReply>();
  EXPECT_EQ(edited.cells, 7u);
  EXPECT_EQ(edited.replayed, 0u);
}

TEST_F(ReplayTest, AForkOfAPrefixHasTheCellsOfThePrefix) {
  const SequenceHandle sequence = Filled(client_, 40);
  wire::Submission fork = Make(wire::ForkArgs{.sequence = sequence, .cells = 25, .count = 3});
  const auto answer = Answer(fork);
  const auto forked = answer.As<wire::ForkReply>();
  EXPECT_EQ(forked.cells, 25u);
  EXPECT_EQ(forked.replayed, 25u);
  ASSERT_EQ(forked.handles.size(), 3u);
  for (const SequenceHandle handle : forked.handles) EXPECT_EQ(Cells(handle), 25u);
  EXPECT_EQ(Cells(sequence), 40u);
  EXPECT_EQ(Live(), 4u);
}

TEST_F(ReplayTest, ACopyOfAPrefixLeavesNoTemporaryFork) {
  const SequenceHandle sequence = Filled(client_, 40);
  const SequenceHandle destination = Create(client_);
  wire::Submission copy = Make(wire::CopyRangeArgs{
      .source = sequence, .destination = destination, .range = {Pos{0}, Pos{12}}});
  const auto answer = Answer(copy);
  const auto copied = answer.As<wire::EditReply>();
  EXPECT_EQ(copied.cells, 12u);
  EXPECT_EQ(copied.replayed, 12u);
  EXPECT_EQ(Cells(destination), 12u);
  EXPECT_EQ(Live(), 2u);
  copy = Make(wire::CopyRangeArgs{
      .source = sequence, .destination = destination, .range = {Pos{5}, Pos{12}}});
  ExpectRefused(Call(client_, copy), Code::kUnsupported, "recurrent state");
}

TEST_F(ReplayTest, AReplayedSequenceIsBusyAndACancelLeavesItUnchanged) {
  const SequenceHandle sequence = Filled(client_, 40);
  (void)Call(client_,
             Make(wire::RemoveRangeArgs{.sequence = sequence, .range = {Pos{30}, kPosEnd}}));
  const std::uint64_t request = last_request_;
  ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(FreeSlots(), 28u);
  ExpectRefused(Call(client_, Make(Verb::kClear, sequence)), Code::kBusy, "being computed");
  EXPECT_TRUE(scheduler_.Cancel(SessionId{1}, static_cast<RequestId>(request)));
  RunDry();
  const auto all = client_.All();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(static_cast<Code>(all[0].completion.code), Code::kCancelled);
  EXPECT_EQ(Cells(sequence), 40u);
  EXPECT_EQ(FreeSlots(), 30u);
}

TEST_F(ReplayTest, AReplayThatOutlivesItsServiceDropsItsFork) {
  const SequenceHandle sequence = Filled(client_, 40);
  auto scheduler = std::make_unique<Scheduler>(engine_, 64, SchedulerOptions{});
  auto service = std::make_unique<Service>(
      engine_, *scheduler, shares_,
      Service::Surroundings{.pid_of_session = [](SessionId) { return 7u; },
                            .session_count = [] { return 1u; }});
  wire::Submission fork = Make(wire::ForkArgs{.sequence = sequence, .cells = 25});
  fork.request = ++last_request_;
  ReceivedSubmission received = client_.Send(fork);
  const Outcome outcome = service->Handle(client_.session(), received);
  ASSERT_TRUE(std::holds_alternative<AnsweredByScheduler>(outcome));
  for (int round = 0; round < 2; ++round) ASSERT_TRUE(scheduler->RunOnce());
  EXPECT_EQ(Live(), 2u);
  service.reset();
  scheduler.reset();
  EXPECT_EQ(Live(), 1u);
}

TEST_F(ReplayTest, AGenerationContinuesFromTheLogitsOfASnapshot) {
  const SequenceHandle sequence = Filled(client_, 4);
  wire::GenerateRequest generate;
  wire::GenerateView view;
  view.params = {.token_count = 0,
                 .predict_max = 2,
                 .sampling = DefaultSamplingAt(0.0f),
                 .logprob_count = 0,
                 .flags = wire::kContinue,
                 .seed = 1,
                 .bias_count = 0,
                 .stop_count = 0,
                 .stop_bytes = 0,
                 .breaker_count = 0,
                 .breaker_bytes = 0,
                 .grammar_bytes = 0,
                 .trigger_count = 0,
                 .trigger_bytes = 0,
                 .room_wait_ms = -1,
                 .reserved = 0};
  std::vector<std::byte> payload(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, payload);
  wire::Submission submission = Make(wire::GenerateArgs{.sequence = sequence});
  // The earlier decode asked for no logits, so that none are kept.
  ExpectRefused(Call(client_, submission, payload), Code::kUnsupported, "no logits are kept");

  const SequenceHandle other = Create(client_);
  wire::Submission decode =
      Make(wire::DecodeArgs{.sequence = other, .logits = wire::LogitsWanted::kLast});
  (void)CallTokens(client_, decode, {5, 6, 7});
  RunDry();
  (void)client_.All();
  submission.sequence = static_cast<std::uint64_t>(other);
  (void)Call(client_, submission, payload);
  RunDry();
  EXPECT_EQ(Cells(other), 5u);
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  ASSERT_TRUE(engine_.memory().holds().ReadCells(other, 3, 2, &tokens, &positions));
  EXPECT_EQ(tokens,
            (std::vector<TokenId>{engine_.NextToken(7), engine_.NextToken(engine_.NextToken(7))}));
}

}  // namespace
}  // namespace kvd
