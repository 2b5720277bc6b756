// Tests requests that are retried with another service over the same memory, as after a restart. A
// request that was applied gets its former answer, other requests are executed, and a generation
// resumes at the token where it stopped.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "shm/payload_codec.h"
#include "tests/daemon/support/retry_fixture.h"

namespace kvd {
namespace {

using test::FakeEngine;
using test::kOwn;
using test::kRetrySession;
using test::ReceivedCompletion;
using test::RetryTest;
using testing::HasSubstr;
using wire::Verb;

TEST_F(RetryTest, EveryChangeIsAppliedOnce) {
  const SequenceHandle made = ExpectAppliedOnce(Make(Verb::kCreate)).sequence();
  const SequenceHandle source = Filled(40);
  const ReceivedCompletion forked =
      ExpectAppliedOnce(Make(wire::ForkArgs{.sequence = source, .cells = 33, .count = 3}));
  const auto fork_reply = forked.As<wire::ForkReply>();
  const std::vector<SequenceHandle>& forks = fork_reply.handles;
  ASSERT_EQ(forks.size(), 3u);
  EXPECT_EQ(fork_reply.cells, 33u);
  (void)ExpectAppliedOnce(
      Make(wire::RemoveRangeArgs{.sequence = forks[0], .range = {Pos{30}, kPosEnd}}));
  (void)ExpectAppliedOnce(
      Make(wire::RemoveRangeArgs{.sequence = forks[0], .range = {Pos{3}, Pos{9}}}));
  (void)ExpectAppliedOnce(
      Make(wire::AddArgs{.sequence = forks[0], .range = {Pos{20}, kPosEnd}, .delta = 30}));
  (void)ExpectAppliedOnce(
      Make(wire::DivideArgs{.sequence = forks[0], .range = {Pos{50}, kPosEnd}, .divisor = 2}));
  wire::Submission copy = Make(
      wire::CopyRangeArgs{.source = forks[1], .destination = made, .range = {Pos{4}, Pos{12}}});
  EXPECT_EQ(ExpectAppliedOnce(copy).As<wire::EditReply>().cells, 8u);
  (void)ExpectAppliedOnce(Make(Verb::kClear, forks[2]));
  (void)ExpectAppliedOnce(Make(Verb::kPublish, forks[1]), "name");
  EXPECT_EQ(ExpectAppliedOnce(Make(Verb::kAttach), "name").As<wire::ForkedReply>().cells, 33u);
  (void)ExpectAppliedOnce(Make(Verb::kUnpublish), "name");
  (void)ExpectAppliedOnce(Make(Verb::kDrop, forks[1]));
  wire::Submission pin = Make(wire::PinArgs{.sequence = forks[0], .is_pinned = true});
  (void)ExpectAppliedOnce(pin);
  EXPECT_TRUE(ExpectAppliedOnce(Make(Verb::kRetain, forks[0])).As<wire::RetainReply>().stays);
  const SequenceHandle other = Filled(50);
  EXPECT_TRUE(ExpectAppliedOnce(Make(Verb::kRetain, other)).As<wire::RetainReply>().stays);
  EXPECT_FALSE(ExpectAppliedOnce(Make(Verb::kRetain, Filled(3))).As<wire::RetainReply>().stays)
      << "too short";
  EXPECT_EQ(ExpectAppliedOnce(Make(Verb::kDropRetained)).As<wire::DropRetainedReply>().count, 1u);
  wire::Submission drop = Make(Verb::kDropRetained);
  drop.flags = wire::kFlagForce;
  EXPECT_EQ(ExpectAppliedOnce(drop).As<wire::DropRetainedReply>().count, 1u);
  (void)ExpectAppliedOnce(Make(Verb::kKeep, source));
}

TEST_F(RetryTest, ARetryOfAnUnappliedChangeAppliesIt) {
  const SequenceHandle source = Filled(10);
  const wire::Submission removal =
      WithId(Make(wire::RemoveRangeArgs{.sequence = source, .range = {Pos{6}, kPosEnd}}));
  const ReceivedCompletion removed = Call(Again(removal));
  ASSERT_EQ(removed.code(), Code::kOk);
  EXPECT_EQ(removed.As<wire::EditReply>().cells, 4u);
  EXPECT_EQ(Call(Again(removal)).As<wire::EditReply>().cells, 4u);
  EXPECT_EQ(memory().sequences().Query(source)->cell_count, 6u);
  const wire::Submission fork = WithId(Make(wire::ForkArgs{.sequence = source, .count = 2}));
  EXPECT_EQ(Call(Again(fork)).output, Call(Again(fork)).output);
  EXPECT_EQ(memory().sequences().List().size(), 3u);
}

TEST_F(RetryTest, ARetryWhoseReplyIsUnknownIsAConflict) {
  const SequenceHandle source = Filled(10);
  const wire::Submission fork = WithId(Make(wire::ForkArgs{.sequence = source, .count = 2}));
  const ReceivedCompletion forked = Call(fork);
  SequenceHandle first;
  std::memcpy(&first, forked.output.data(), sizeof first);
  ASSERT_TRUE(memory().sequences().Drop(first));
  ReceivedCompletion again = Call(Again(fork));
  EXPECT_EQ(again.code(), Code::kConflict);
  EXPECT_THAT(again.text(), HasSubstr("of 2 forks, 1 are left"));
  wire::Submission other = Make(Verb::kClear, source);
  other.request = fork.request;
  again = Call(Again(other));
  EXPECT_EQ(again.code(), Code::kConflict);
  EXPECT_THAT(again.text(), HasSubstr("another verb"));
  const wire::Submission early = WithId(Make(Verb::kClear, source));
  for (std::uint32_t i = 0; i < layout::kAppliedMax; ++i) {
    ASSERT_EQ(Call(WithId(Make(wire::AddArgs{.sequence = source, .delta = 1}))).code(), Code::kOk);
  }
  EXPECT_EQ(Call(Again(early)).code(), Code::kConflict);
  EXPECT_EQ(memory().sequences().Query(source)->cell_count, 10u);
  // A retried read-only request is executed again.
  wire::Submission query = Make(Verb::kQuery, source);
  query.request = early.request;
  EXPECT_EQ(Call(Again(query)).code(), Code::kOk);
}

// --------------------------------------------------------------------------------------- decodes

class DecodeRetryTest : public RetryTest, public testing::WithParamInterface<bool> {
 protected:
  DecodeRetryTest() : RetryTest({.cells = 4096, .ubatch_tokens = 8, .has_state = GetParam()}) {}
};

// Returns the token with the largest logit in the row.
TokenId Likeliest(std::span<const std::byte> row) {
  std::vector<float> floats(row.size() / sizeof(float));
  std::memcpy(floats.data(), row.data(), row.size());
  return static_cast<TokenId>(std::ranges::max_element(floats) - floats.begin());
}

TEST_P(DecodeRetryTest, APositionThatOverflowsIsRefusedWithTheSum) {
  const std::vector<TokenId> tokens(21, FakeEngine::Letter('a'));
  const auto payload = std::as_bytes(std::span(tokens));
  const SequenceHandle sequence = Filled(3);
  wire::Submission decode = WithId(Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{3}}));
  ASSERT_FALSE(Submit(decode, payload));
  (void)daemon_->scheduler.RunOnce();
  (void)daemon_->client.All();
  ASSERT_EQ(memory().sequences().Query(sequence)->cell_count, 11u);
  decode = Again(decode);
  wire::PutArguments(wire::DecodeArgs{.sequence = sequence, .pos = Pos{INT32_MAX}}, &decode);
  Restart();
  const auto refused = Submit(decode, payload);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), Code::kInvalidArgument);
  EXPECT_THAT(refused->text(), HasSubstr("pos: 2147483655 is not the next position"));
  EXPECT_EQ(memory().sequences().Query(sequence)->cell_count, 11u);
}

TEST_P(DecodeRetryTest, ARetriedDecodeResumesAtEveryStep) {
  const std::size_t row_bytes = engine_.config().vocab_size * sizeof(float);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 21; ++i) tokens.push_back(FakeEngine::Letter(static_cast<char>('a' + i)));
  const auto payload = std::as_bytes(std::span(tokens));
  for (const auto wanted :
       {wire::LogitsWanted::kNone, wire::LogitsWanted::kLast, wire::LogitsWanted::kAll}) {
    for (int steps = 0; steps < 7; ++steps) {
      for (const bool has_read : {false, true}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(wanted)) + " wanted, after " +
                     std::to_string(steps) + " steps, read: " + std::to_string(has_read));
        const SequenceHandle sequence = Filled(3);
        wire::Submission decode =
            WithId(Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{3}, .logits = wanted}));
        ASSERT_FALSE(Submit(decode, payload));
        for (int step = 0; step < steps; ++step) (void)daemon_->scheduler.RunOnce();
        std::vector<TokenId> rows;
        bool is_over = false;
        decode = Again(decode);
        if (has_read) {
          for (const ReceivedCompletion& piece : daemon_->client.All()) {
            for (std::size_t at = 0; at < piece.output.size(); at += row_bytes) {
              rows.push_back(Likeliest(std::span(piece.output).subspan(at, row_bytes)));
            }
            if (wanted == wire::LogitsWanted::kAll) {
              decode.received = static_cast<std::uint32_t>(piece.completion.value0 - 3);
            }
            is_over = is_over || piece.is_final();
          }
        }
        if (!is_over) {
          Restart();
          // The scheduler answers the retry; a direct answer would be an error.
          const auto direct = Submit(decode, payload);
          ASSERT_FALSE(direct) << direct->text();
          RunDry();
          const auto all = daemon_->client.All();
          ASSERT_FALSE(all.empty());
          EXPECT_EQ(all.back().code(), Code::kOk) << all.back().text();
          EXPECT_EQ(all.back().completion.value0, 3 + std::ssize(tokens))
              << "cells of the sequence";
          for (const ReceivedCompletion& piece : all) {
            for (std::size_t at = 0; at < piece.output.size(); at += row_bytes) {
              rows.push_back(Likeliest(std::span(piece.output).subspan(at, row_bytes)));
            }
          }
        }
        std::vector<TokenId> right;
        for (const TokenId token : tokens) right.push_back(engine_.NextToken(token));
        if (wanted == wire::LogitsWanted::kLast) right = {right.back()};
        if (wanted == wire::LogitsWanted::kNone) right = {};
        EXPECT_EQ(rows, right);
        std::vector<TokenId> held;
        std::vector<Pos> positions;
        ASSERT_TRUE(memory().holds().ReadCells(sequence, 3, ~0u, &held, &positions));
        EXPECT_EQ(held, tokens);
        ASSERT_TRUE(memory().sequences().Drop(sequence));
      }
    }
  }
}

TEST_P(DecodeRetryTest, ARetryThatContradictsTheSequenceIsRefused) {
  const SequenceHandle sequence = Filled(3);
  const std::vector<TokenId> tokens(4, 9);
  const auto payload = std::as_bytes(std::span(tokens));
  wire::Submission decode = WithId(Make(
      wire::DecodeArgs{.sequence = sequence, .pos = Pos{3}, .logits = wire::LogitsWanted::kAll}));
  ASSERT_EQ(Call(decode, payload).code(), Code::kOk);
  const auto expect = [&](wire::Submission submission, std::span<const TokenId> sent,
                          const char* named) {
    const auto answer = Submit(Again(submission), std::as_bytes(sent));
    ASSERT_TRUE(answer) << named;
    EXPECT_EQ(answer->code(), Code::kConflict) << named;
    EXPECT_THAT(answer->text(), HasSubstr(named));
  };
  wire::Submission wrong = decode;
  wrong.received = 5;
  expect(wrong, tokens, "received");
  wrong.received = 4;
  expect(wrong, tokens, "received");
  expect(decode, std::vector<TokenId>(4, 8), "other tokens");
  expect(decode, std::vector<TokenId>(3, 9), "received");
  wire::Submission next = WithId(Make(wire::DecodeArgs{.sequence = sequence, .pos = Pos{7}}));
  ASSERT_EQ(Call(next, payload).code(), Code::kOk);
  expect(decode, tokens, "computed on its sequence since");
  ASSERT_EQ(Call(WithId(Make(Verb::kClear, sequence))).code(), Code::kOk);
  expect(next, tokens, "edited since");
}

INSTANTIATE_TEST_SUITE_P(Models, DecodeRetryTest, testing::Bool());

// ------------------------------------------------------------------------------- recurrent models

class ReplayRetryTest : public RetryTest {
 protected:
  ReplayRetryTest() : RetryTest({.cells = 4096, .has_state = true}) {}

  // Restarts the daemon after 0 to 44 rounds of the scheduler and retries the request each time.
  void ExpectAppliedOnceFromEveryRound(const std::function<wire::Submission()>& make,
                                       std::size_t sequences_made) {
    for (int rounds = 0; rounds < 45; ++rounds) {
      SCOPED_TRACE("after " + std::to_string(rounds) + " rounds");
      const wire::Submission submission = WithId(make());
      const std::size_t before = memory().sequences().List().size();
      ASSERT_FALSE(Submit(submission));
      for (int round = 0; round < rounds; ++round) (void)daemon_->scheduler.RunOnce();
      Restart();
      const ReceivedCompletion answer = Call(Again(submission));
      EXPECT_EQ(answer.code(), Code::kOk) << answer.text();
      EXPECT_EQ(memory().sequences().List().size(), before + sequences_made);
      const ReceivedCompletion third = Call(Again(submission));
      EXPECT_EQ(third.code(), Code::kOk);
      EXPECT_EQ(third.output, answer.output);
      EXPECT_EQ(third.completion.value0, submission.verb == static_cast<std::uint16_t>(Verb::kFork)
                                             ? third.completion.value0
                                             : answer.completion.value0);
      EXPECT_EQ(third.completion.value1, answer.completion.value1);
      EXPECT_EQ(memory().sequences().List().size(), before + sequences_made);
    }
  }
  void DropAllBut(SequenceHandle kept) {
    for (const SequenceInfo& info : memory().sequences().List()) {
      if (info.handle == kept) continue;
      EXPECT_TRUE(memory().sequences().Drop(info.handle));
    }
  }
};

TEST_F(ReplayRetryTest, RetriedRemovalsAreAppliedOnce) {
  ExpectAppliedOnceFromEveryRound(
      [&] {
        DropAllBut(SequenceHandle::kNone);
        return Make(wire::RemoveRangeArgs{.sequence = Filled(40), .range = {Pos{30}, kPosEnd}});
      },
      0);
}

TEST_F(ReplayRetryTest, RetriedForksAreMadeOnce) {
  const SequenceHandle source = Filled(40);
  for (const int count : {1, 3}) {
    ExpectAppliedOnceFromEveryRound(
        [&] {
          DropAllBut(source);
          return Make(wire::ForkArgs{
              .sequence = source, .cells = 30, .count = static_cast<std::uint32_t>(count)});
        },
        static_cast<std::size_t>(count));
  }
}

TEST_F(ReplayRetryTest, RetriedCopiesAreMadeOnce) {
  const SequenceHandle source = Filled(40);
  ExpectAppliedOnceFromEveryRound(
      [&] {
        DropAllBut(source);
        wire::Submission copy = Make(wire::CopyRangeArgs{
            .source = source, .destination = Filled(0), .range = {Pos{0}, Pos{30}}});
        return copy;
      },
      0);
}

TEST_F(ReplayRetryTest, APartialForkIsDroppedAfterAKill) {
  const SequenceHandle source = Filled(40);
  const wire::Submission fork =
      WithId(Make(wire::ForkArgs{.sequence = source, .cells = 30, .count = 2}));
  RequestTag part{.session = kRetrySession,
                  .request = static_cast<RequestId>(fork.request),
                  .kind = fork.verb,
                  .completes = false};
  SequenceHandle left;
  ASSERT_TRUE(memory().sequences().Fork(source, {.id = OwnerId{kOwn}, .session = kRetrySession},
                                        {&left, 1}, std::nullopt, part));
  EXPECT_EQ(Call(Again(fork)).code(), Code::kOk);
  EXPECT_EQ(memory().sequences().List().size(), 3u);
  EXPECT_FALSE(memory().sequences().Query(left).has_value() &&
               memory().sequences().Query(left)->cell_count == 40);
}

}  // namespace
}  // namespace kvd
