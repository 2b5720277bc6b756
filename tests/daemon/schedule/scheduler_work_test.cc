#include <map>

#include "daemon/requests/texts_request.h"
#include "daemon/schedule/scheduled_request.h"
#include "tests/daemon/support/scheduler_fixture.h"

namespace kvd {
namespace {

// Work between steps. The scheduler uses the fake engine's clock, on which each token takes the
// time that the test sets.
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
  // The number of tokens of all work and of all steps since the engine was made.
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
  // Checks that, from slice `first_slice` on, the work between two steps takes at most
  // kStepSeconds, and that it is spread over at least 40 steps.
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

  // Checks that a user's kDivide and another user's prompt get equal time.
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
    // A step has 128 tokens and takes 0.128 s; about half of a round's time goes to the other
    // user's work.
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

TEST_F(WorkTest, DivisionsLeaveDecodeRowsOfAnotherUserTheirTime) {
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

TEST_F(CrossWorkTest, EncodingTextsLeavesDecodeRowsOfAnotherUserTheirTime) {
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
  // The scheduler learns the cost of a text's tokens from the first 8 slices.
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

TEST_F(WorkTest, ACancelledDecodeDoesNotPrepareItsSequenceAndFreesItsCells) {
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

TEST_F(WorkTest, WithoutDecodeRowsWorkMayTakeAWholeStep) {
  TestSession client(1, 1001);
  const SequenceHandle sequence = Filled(client, 1000);
  Divide(client, sequence);
  for (int round = 0; round < 4; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  EXPECT_EQ(engine_.works().back().tokens, 128u);
}

TEST_F(WorkTest, TwoUsersShareEvenlyWhenOneDividesAndOnePrefills) { ExpectEvenShares(0.001); }

TEST_F(WorkTest, UsersShareTimeIfCellsAreCheaperThanTokens) { ExpectEvenShares(0.00025); }

TEST_F(WorkTest, ACancelledDivisionChangesNothingAndFreesItsCells) {
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

TEST_F(WorkTest, ASequenceThatIsDroppedDuringItsDivisionFreesItsCells) {
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

TEST_F(CrossWorkTest, TextsInProgressAreBoundedAndEndWithTheirSessions) {
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
  EXPECT_EQ(most, WorkTurns::kWorksMax);
  users[0]->session()->Close();
  scheduler_.CancelSession(users[0]->session()->id());
  EXPECT_TRUE(scheduler_.HasRequests(users[0]->session()->id()));
  while (scheduler_.RunOnce()) EXPECT_LE(engine_.open_texts(), WorkTurns::kWorksMax);
  EXPECT_FALSE(scheduler_.HasRequests(users[0]->session()->id()));
  EXPECT_EQ(engine_.open_texts(), 0u);
  for (std::size_t user = 1; user < kUsers; ++user) {
    const auto answers = users[user]->All();
    EXPECT_EQ(answers.size(), kTextsOfEach);
    for (const ReceivedCompletion& answer : answers) EXPECT_EQ(answer.code(), Code::kOk);
  }
}

TEST_F(CrossWorkTest, TheBuffersOfATextAreCountedWhileItIsEncoded) {
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

TEST_F(CrossWorkTest, ManyTextsOfOneUserDoNotDelayThoseOfAnother) {
  std::vector<std::unique_ptr<TestSession>> users;
  for (std::uint32_t user = 0; user < WorkTurns::kWorksMax; ++user) {
    users.push_back(std::make_unique<TestSession>(user + 1, 1001 + user));
    for (int text = 0; text < 20; ++text) Encode(*users.back(), NewSequence(*users.back()), 100);
  }
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(scheduler_.RunOnce());
  TestSession late(9, 1099);
  Encode(late, NewSequence(late), 100);
  // Before the late text is done, each of the other kWorksMax users may finish one text and compute
  // another one: 2 * kWorksMax * 100 tokens.
  const std::size_t before = Count().work;
  while (late.All().empty() && scheduler_.RunOnce()) {
  }
  EXPECT_LE(Count().work - before, 2 * WorkTurns::kWorksMax * 100);
}

}  // namespace
}  // namespace kvd
