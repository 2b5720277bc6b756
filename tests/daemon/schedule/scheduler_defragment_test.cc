#include <cstring>

#include "daemon/schedule/defragmentation.h"
#include "tests/daemon/support/scheduler_fixture.h"

namespace kvd {
namespace {

// FillSparsely leaves a third of the cells of each used block live.
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
  ASSERT_TRUE(scheduler_.Submit(
      std::make_unique<DefragmentRequest>(Begin(client, 1, wire::Verb::kDefrag))));
  const Status second =
      scheduler_.Submit(std::make_unique<DefragmentRequest>(Begin(client, 2, wire::Verb::kDefrag)));
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
  ASSERT_TRUE(scheduler_.Submit(
      std::make_unique<DefragmentRequest>(Begin(client, 6, wire::Verb::kDefrag))));
  RunDry();
  EXPECT_EQ(engine_.memory().sequences().QueryUse(sequence)->delta_count, 1u);
  EXPECT_EQ(engine_.memory().sequences().Query(sequence)->next_pos.value, 65);
}

TEST_F(DefragTest, DefragmentationBeginsAboveTheThreshold) {
  TestSession client(1, 1000);
  FillSparsely(client);
  Scheduler automatic(engine_, 64, {.defrag_threshold = 0.3});
  for (int i = 0; i < 2000 && UsedBlocks() > 32; ++i) (void)automatic.RunOnce();
  // Small slices may leave one block that is so full that emptying it frees too little.
  EXPECT_LE(UsedBlocks(), 33u);
}

}  // namespace
}  // namespace kvd
