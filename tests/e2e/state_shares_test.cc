// Tests the limits for another uid on a model with recurrent states: state slots, checkpoints and
// rows of logits. Needs root.
#include <span>
#include <string>
#include <vector>

#include "tests/e2e/support/shares_fixture.h"

namespace kvd {
namespace {

using test::Append;
using test::DataModel;
using test::Fill;
using test::TokensOf;

class StateSharesTest : public test::SharesTest {
 protected:
  explicit StateSharesTest(std::vector<std::string> more = {"--state-slots", "64"})
      : SharesTest(WithModel(std::move(more))) {}

 private:
  static std::vector<std::string> WithModel(std::vector<std::string> more) {
    more.insert(more.begin(), {"-m", DataModel("attention-and-state")});
    return more;
  }
};

TEST_F(StateSharesTest, SequencesOfAnotherUidLeaveStateSlotsToTheOwnUid) {
  const Client other = Other();
  std::size_t filled = 0;
  for (; filled < 64; ++filled) {
    const auto sequence = Fill(other, filled, 2);
    if (sequence) continue;
    ExpectRefusedByShare(sequence.error());
    break;
  }
  EXPECT_GE(filled, 8u);
  EXPECT_LT(filled, 64u);
  const Client own = Connect();
  for (std::size_t number = 0; number < 32; ++number) {
    const auto sequence = Fill(own, 100 + number, 2);
    ASSERT_TRUE(sequence) << number << ": " << sequence.error().message;
  }
}

TEST_F(StateSharesTest, ForksOfAnotherUidLeaveStateSlotsToTheOwnUid) {
  const Client other = Other();
  const auto source = Fill(other, 1, 2);
  ASSERT_TRUE(source) << source.error().message;
  const auto forks = other.Fork(*source, -1, 63);
  if (forks) {
    for (const SequenceHandle fork : *forks) {
      if (const Status appended = Append(other, fork, TokensOf(3, 1)); !appended) {
        ExpectRefusedByShare(appended.error());
        EXPECT_EQ(other.Query(fork)->cell_count, 2u);
      }
    }
  } else {
    ExpectRefusedByShare(forks.error());
  }
  const Client own = Connect();
  for (std::size_t number = 0; number < 32; ++number) {
    const auto sequence = Fill(own, 100 + number, 2);
    ASSERT_TRUE(sequence) << number << ": " << sequence.error().message;
  }
}

class CheckpointSharesTest : public StateSharesTest {
 protected:
  static constexpr std::int32_t kMiddle = 32;

  CheckpointSharesTest() : StateSharesTest({"--state-slots", "64", "--checkpoint-every", "16"}) {}

  // Makes a sequence of 80 tokens with a checkpoint after every 16 tokens, so that its first tokens
  // can be forked without a replay.
  static Result<SequenceHandle> FillWithCheckpoints(const Client& client, std::size_t number) {
    KVD_TRY(const SequenceHandle sequence, client.Create());
    const std::vector<TokenId> tokens = TokensOf(number, 80);
    for (std::size_t done = 0; done < tokens.size(); done += 16) {
      KVD_CHECK_OK(Append(client, sequence, std::span(tokens).subspan(done, 16)));
    }
    return sequence;
  }
  static std::uint64_t ReplayedForFork(const Client& client, SequenceHandle sequence) {
    ForkInfo info;
    const auto fork = client.Fork(sequence, kMiddle, 1, &info);
    EXPECT_TRUE(fork) << fork.error().message;
    if (fork) {
      EXPECT_TRUE(client.Drop((*fork)[0]));
    }
    return info.tokens_replayed;
  }
};

TEST_F(CheckpointSharesTest, CheckpointsOfAnotherUidLeaveCheckpointsToTheOwnUid) {
  const Client other = Other();
  for (std::size_t number = 0; number < 12; ++number) {
    if (const auto sequence = FillWithCheckpoints(other, number); !sequence) {
      ExpectRefusedByShare(sequence.error());
    }
  }
  const Client own = Connect();
  for (std::size_t number = 0; number < 3; ++number) {
    const auto sequence = FillWithCheckpoints(own, 100 + number);
    ASSERT_TRUE(sequence) << sequence.error().message;
    EXPECT_EQ(ReplayedForFork(own, *sequence), 0u) << number;
  }
}

TEST_F(CheckpointSharesTest, StatesOfAnotherUidEvictNoCheckpointOfTheOwnUid) {
  const Client own = Connect();
  std::vector<SequenceHandle> sequences;
  for (std::size_t number = 0; number < 3; ++number) {
    const auto sequence = FillWithCheckpoints(own, 100 + number);
    ASSERT_TRUE(sequence) << sequence.error().message;
    ASSERT_EQ(ReplayedForFork(own, *sequence), 0u);
    sequences.push_back(*sequence);
  }
  const Client other = Other();
  for (std::size_t number = 0; number < 62; ++number) (void)Fill(other, number, 2);
  for (const SequenceHandle sequence : sequences) EXPECT_EQ(ReplayedForFork(own, sequence), 0u);
}

TEST_F(CheckpointSharesTest, AUidAtItsShareOfStatesEvictsItsOwnCheckpoints) {
  const Client other = Other();
  const auto first = FillWithCheckpoints(other, 0);
  ASSERT_TRUE(first) << first.error().message;
  // A new sequence gets a state slot from the uid's quota as long as the uid has checkpoints that
  // can be removed.
  std::size_t filled = 0;
  while (filled < 64 && Fill(other, 1 + filled, 2)) ++filled;
  EXPECT_GE(filled, 12u);
  EXPECT_LT(filled, 32u);
}

// The daemon keeps at most 1,024 rows of logits.
class LogitsSharesTest : public StateSharesTest {
 protected:
  LogitsSharesTest()
      : StateSharesTest({"--state-slots", "8192", "-c", "131072", "--other-sequences", "1400",
                         "--other-pool-share", "0.5"}) {}
};

TEST_F(LogitsSharesTest, LogitsOfAnotherUidEvictNoneOfTheOwnUid) {
  const Client own = Connect();
  const auto sequence = Fill(own, 5000, 20);
  ASSERT_TRUE(sequence) << sequence.error().message;
  const Client other = Other();
  for (std::size_t number = 0; number < 1200; ++number) {
    const auto filled = Fill(other, number, 2);
    ASSERT_TRUE(filled) << number << ": " << filled.error().message;
  }
  const std::uint64_t computed = own.Info()->tokens_computed;
  GenerateOptions options;
  options.flags = wire::kContinue | wire::kIgnoreEos;
  options.predict_max = 1;
  auto generation = own.StartGenerate(*sequence, options);
  ASSERT_TRUE(generation) << generation.error().message;
  for (;;) {
    const auto piece = generation->Next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (!*piece) break;
  }
  EXPECT_EQ(own.Info()->tokens_computed - computed, 1u) << "its row of logits was there";
}

}  // namespace
}  // namespace kvd
