// Tests cases of Reserve, Commit and Abandon that memory_model_test reaches rarely, and verbs on
// several threads during steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(MemoryStepTest, AFailedReserveNamesTheRequestAndKeepsCellsOfOthers) {
  const auto memory = MakeMemory(SmallOptions(96));
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  const SequenceHandle b = *memory->sequences().Create(kOwner);
  const std::vector<TokenId> two_blocks(40, 1);
  const AppendRequest requests[] = {{a, Pos{0}, two_blocks}, {b, Pos{0}, two_blocks}};
  StepPlan plan;
  const Status status = memory->steps().Reserve(requests, plan);
  EXPECT_EQ(status.error().message, "cells: 2 blocks needed, 1 free, 0 reclaimable");
  EXPECT_EQ(plan.failed, 1u);
  EXPECT_EQ(plan.count, 0u);
  EXPECT_EQ(memory->Usage().free_blocks, 3u);
  ASSERT_TRUE(memory->steps().Reserve({requests, 1}, plan));
  EXPECT_EQ(memory->Usage().free_blocks, 1u);
  memory->steps().Abandon(plan, 0);
  memory->steps().EndStep(plan);
  EXPECT_EQ(memory->Usage().free_blocks, 3u);
}

TEST(MemoryStepTest, AListWithoutRoomFailsAtReserveAndAtCommit) {
  MemoryOptions options = SmallOptions(1024);
  options.list_unit_count = 3;
  const auto memory = MakeMemory(options);
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  // the list takes one unit and has room for one more entry
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 15 * 32));
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 32));
  const std::vector<TokenId> token(1, 1);
  const AppendRequest request{a, Pos{16 * 32}, token};
  StepPlan plan;
  ASSERT_TRUE(memory->steps().Reserve({&request, 1}, plan));  // needs the two free list units
  SequenceHandle fork{};
  ASSERT_TRUE(memory->sequences().Fork(a, kOwner, {&fork, 1}, 3));
  const Status status = memory->steps().Commit(plan, 0);
  EXPECT_EQ(status.error().message, "lists: 2 units needed, 1 free in a row, 1 in all");
  memory->steps().EndStep(plan);
  EXPECT_EQ(memory->sequences().Query(a)->cell_count, 16u * 32);
  EXPECT_EQ(memory->Usage().free_blocks, 16u);
  EXPECT_THAT(memory->steps().Reserve({&request, 1}, plan).error().message, StartsWith("lists: "));
  EXPECT_THAT(memory->sequences().AddPositions(a, {}, 1).error().message, StartsWith("lists: "));
  ASSERT_TRUE(memory->sequences().Drop(fork));
  EXPECT_TRUE(AppendTokens(*memory, a, 0, 1));
  EXPECT_TRUE(*RebuildTables(memory->meta_bytes()) == memory->derived());
}

TEST(MemoryStepTest, ExtentsOfThePlanCoverPastAndNewCells) {
  const auto memory = MakeMemory(SmallOptions(256));
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 40));
  ASSERT_TRUE(memory->sequences().AddPositions(a, {Pos{20}, kPosEnd}, 5));
  const std::vector<TokenId> tokens(30, 1);
  const AppendRequest request{a, Pos{45}, tokens};
  StepPlan plan;
  ASSERT_TRUE(memory->steps().Reserve({&request, 1}, plan));
  const StepSequence& part = plan.sequences[0];
  // The extents are cells 0..19, cells 20..31 with delta 5, cells 32..63 with delta 5 (32..39 are
  // past cells), and cells 64..69 with delta 5.
  ASSERT_EQ(part.groups[0].extents.size(), 4u);
  EXPECT_EQ(part.groups[0].first_new_extent, 2u);
  EXPECT_EQ(part.groups[0].extents[2].start, 32u);
  EXPECT_EQ(part.groups[0].extents[3].start, 64u);
  EXPECT_EQ(part.groups[0].extents[3].delta, 5);
  EXPECT_EQ(part.past_cells + part.new_cells, 70u);
  ASSERT_TRUE(memory->steps().Commit(plan, 0));
  memory->steps().EndStep(plan);
  const Contents contents = ContentsOf(*memory, a);
  EXPECT_EQ(contents.positions[40], 45);
  EXPECT_EQ(contents.positions[69], 74);
}

TEST(MemoryStepTest, TheLargestPositionIsRefused) {
  const auto memory = MakeMemory(SmallOptions(64));
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 1));
  ASSERT_TRUE(memory->sequences().AddPositions(a, {}, INT32_MAX - 3));
  EXPECT_TRUE(AppendTokens(*memory, a, 0, 2));
  EXPECT_EQ(memory->sequences().Query(a)->next_pos.value, INT32_MAX);
  EXPECT_THAT(AppendTokens(*memory, a, 0, 1).error().message, HasSubstr("at most 2147483646"));
  // A range that ends at kPosEnd contains the largest position.
  EXPECT_EQ(*memory->sequences().RemoveRange(a, {Pos{INT32_MAX - 1}, kPosEnd}), 1u);
}

TEST(MemoryStepTest, StoredPositionsDoNotOverflow) {
  const auto memory = MakeMemory(SmallOptions(64));
  const SequenceHandle a = *memory->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 2));
  ASSERT_TRUE(memory->sequences().AddPositions(a, {Pos{1}, kPosEnd}, INT32_MAX - 5));
  ASSERT_TRUE(AppendTokens(*memory, a, 0, 2));
  EXPECT_TRUE(memory->sequences().AddPositions(a, {Pos{1}, kPosEnd}, 5 - INT32_MAX));
  EXPECT_TRUE(AppendTokens(*memory, a, 0, 2));
  EXPECT_EQ(memory->sequences().Query(a)->next_pos.value, 6);
}

TEST(MemoryStepTest, OtherThreadsRunVerbsWhileStepsRun) {
  MemoryOptions options = SmallOptions(2048);
  options.sequence_capacity = 64;
  const auto memory = MakeMemory(options);
  const SequenceHandle base = *memory->sequences().Create(kOwner);
  ASSERT_TRUE(AppendTokens(*memory, base, 0, 100));
  std::atomic<bool> stops = false;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      while (!stops) {
        SequenceHandle fork{};
        if (!memory->sequences().Fork(base, kOwner, {&fork, 1}, std::nullopt)) continue;
        (void)memory->sequences().RemoveRange(
            fork, {Pos{static_cast<std::int32_t>(random() % 90)}, Pos{95}});
        (void)memory->sequences().AddPositions(fork, {Pos{95}, kPosEnd}, 3);
        (void)memory->sequences().List();
        (void)memory->Usage();
        (void)memory->snapshots().Publish(fork, kOwner, std::to_string(seed), false, true);
        EXPECT_TRUE(memory->sequences().Drop(fork));
      }
    });
  }
  for (int step = 0; step < 2000; ++step) {
    SequenceHandle worker{};
    if (!memory->sequences().Fork(base, kOwner, {&worker, 1},
                                  static_cast<std::uint32_t>(step % 100)))
      continue;
    EXPECT_TRUE(AppendTokens(*memory, worker, 1, 70));
    EXPECT_TRUE(AppendTokens(*memory, worker, 1, 1));
    EXPECT_TRUE(memory->sequences().Drop(worker));
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(*RebuildTables(memory->meta_bytes()) == memory->derived());
  EXPECT_EQ(ContentsOf(*memory, base).tokens.size(), 100u);
}

}  // namespace
}  // namespace kvd
