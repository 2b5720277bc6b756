// Tests work that the scheduler does while no request computes, with a clock that the test moves.
#include "daemon/schedule/idle_work.h"

#include <functional>

#include "tests/daemon/support/scheduler_fixture.h"

namespace kvd {
namespace {

using std::chrono::milliseconds;

class CountedWork final : public IdleWork {
 public:
  Left Slice() override {
    ++slices;
    if (on_slice) on_slice();
    if (waits) return Left::kLater;
    return slices < slices_max ? Left::kMore : Left::kNothing;
  }
  bool waits = false;
  std::size_t slices = 0;
  std::size_t slices_max = 1000;
  std::function<void()> on_slice;
};

class IdleWorkTest : public SchedulerTest {
 protected:
  static constexpr milliseconds kWait{500};

  IdleWorkTest()
      : idle_(engine_, engine_.config().vocab_size,
              {.prefill_chunk_tokens = 64, .idle_work = &work_, .idle_wait = kWait, .now = [this] {
                 return now_;
               }}) {}
  // Runs `count` rounds; returns how many of them did something.
  std::size_t Rounds(std::size_t count) {
    std::size_t worked = 0;
    for (std::size_t i = 0; i < count; ++i) worked += idle_.RunRound() ? 1 : 0;
    return worked;
  }
  void Submit(TestSession& client, std::uint64_t request, SequenceHandle sequence,
              std::size_t tokens) {
    const std::vector<TokenId> prompt(tokens, FakeEngine::Letter('a'));
    const Pos pos = engine_.memory().sequences().Query(sequence)->next_pos;
    EXPECT_TRUE(idle_.Submit(std::make_unique<DecodeRequest>(
        Begin(client, request, wire::Verb::kDecode), sequence, pos, prompt,
        wire::LogitsWanted::kNone, engine_.config().vocab_size)));
  }

  CountedWork work_;
  std::chrono::steady_clock::time_point now_{};
  Scheduler idle_;
};

TEST_F(IdleWorkTest, IdleWorkBeginsAfterTheWaitAndEnds) {
  work_.slices_max = 7;
  EXPECT_EQ(Rounds(5), 0u);
  now_ += kWait - milliseconds(1);
  EXPECT_EQ(Rounds(5), 0u);
  EXPECT_EQ(work_.slices, 0u);
  now_ += milliseconds(1);
  EXPECT_EQ(Rounds(100), 7u);
  EXPECT_EQ(work_.slices, 7u);
}

TEST_F(IdleWorkTest, ARequestWaitsForAtMostOneSlice) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  Rounds(1);
  now_ += kWait;
  work_.on_slice = [&] {
    // The request arrives in the middle of the third slice, and needs two steps.
    if (work_.slices == 3) Submit(client, 1, sequence, 180);
  };
  while (engine_.steps().size() < 2) ASSERT_TRUE(idle_.RunRound());
  EXPECT_EQ(work_.slices, 3u);
  // The wait begins again when the request has ended.
  EXPECT_EQ(Rounds(5), 0u);
  EXPECT_EQ(work_.slices, 3u);
  EXPECT_EQ(Cells(sequence), 180u);
  now_ += kWait;
  EXPECT_EQ(Rounds(5), 5u);
  EXPECT_EQ(work_.slices, 8u);
}

TEST_F(IdleWorkTest, RequestsAtShortIntervalsPreventIdleWork) {
  TestSession client(1);
  const SequenceHandle sequence = NewSequence(client);
  Submit(client, 1, sequence, 10);
  Submit(client, 2, NewSequence(client), 10);
  Rounds(1);
  for (int i = 0; i < 10; ++i) {
    now_ += kWait / 2;
    const std::size_t before = engine_.steps().size();
    Submit(client, 3 + static_cast<std::uint64_t>(i), sequence, 1);
    Rounds(3);
    EXPECT_GT(engine_.steps().size(), before);
  }
  EXPECT_EQ(work_.slices, 0u);
}

TEST_F(IdleWorkTest, WorkThatFailsIsRetriedAfterTheWait) {
  Rounds(1);
  work_.waits = true;
  for (std::size_t attempt = 1; attempt <= 3; ++attempt) {
    now_ += kWait;
    EXPECT_EQ(Rounds(10), 1u);
    EXPECT_EQ(work_.slices, attempt);
  }
}

TEST_F(IdleWorkTest, AStoppedSchedulerStopsBetweenSlices) {
  Rounds(1);
  now_ += kWait;
  work_.on_slice = [&] {
    if (work_.slices == 4) idle_.Stop();
  };
  idle_.Run();
  EXPECT_EQ(work_.slices, 4u);
}

}  // namespace
}  // namespace kvd
