// Tests recurrent states in the memory: slots, checkpoints, kept logits and rewinds. Here a
// state is the list of the tokens from which it was computed, so that every slot can be compared
// with the tokens of its sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/engine/memory/memory_fixture.h"
#include "tests/engine/memory/rules_by_owner.h"
#include "tests/support/into.h"

namespace kvd {
namespace {

using testing::HasSubstr;

constexpr std::size_t kStateTokens = 400;

class StateMemoryTest : public testing::Test {
 protected:
  void SetUp() override { Use(8, 4); }
  void TearDown() override { ExpectConsistent(); }
  void Use(std::uint32_t slots, std::uint32_t checkpoint_slots) {
    MemoryOptions options = SmallOptions(2048);
    options.groups[0].layers.clear();
    options.state_bytes = (kStateTokens + 1) * sizeof(TokenId);
    options.state_slots = slots;
    options.checkpoint_slots = checkpoint_slots;
    options.logits_bytes = 2 * sizeof(float);
    options.logits_rows = 2;
    memory_ = MakeMemory(options);
  }
  void ExpectConsistent() {
    const MetaCopy copy(memory_->meta_bytes());
    const Result<DerivedTables> rebuilt = RebuildTables(copy.bytes());
    ASSERT_TRUE(rebuilt) << rebuilt.error().message;
    EXPECT_TRUE(*rebuilt == memory_->derived());
  }

  // Compute takes the place of a model: it writes the state in `from`, followed by `tokens`, to
  // `to`.
  void Compute(std::uint32_t from, std::uint32_t to, std::span<const TokenId> tokens) {
    std::vector<TokenId> state(kStateTokens + 1);
    if (from != layout::kNoSlot) {
      std::memcpy(state.data(), memory_->StateBytes(from), state.size() * sizeof(TokenId));
    }
    for (const TokenId token : tokens) state[static_cast<std::size_t>(++state[0])] = token;
    std::memcpy(memory_->StateBytes(to), state.data(), state.size() * sizeof(TokenId));
  }
  Status Append(SequenceHandle handle, TokenId first, std::size_t count) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    StepPlan plan;
    const AppendRequest request{handle, memory_->sequences().Query(handle)->next_pos, tokens};
    KVD_CHECK_OK(memory_->steps().Reserve({&request, 1}, plan));
    Compute(plan.sequences[0].state_from, plan.sequences[0].state_to, tokens);
    last_slot_ = plan.sequences[0].state_to;
    const Status status = memory_->steps().Commit(plan, 0);
    memory_->steps().EndStep(plan);
    return status;
  }
  SequenceHandle Make(std::size_t count) {
    const SequenceHandle handle = *memory_->sequences().Create(kOwner);
    EXPECT_TRUE(Append(handle, 1, count));
    return handle;
  }
  Result<SequenceHandle> Fork(SequenceHandle source, std::optional<std::uint32_t> cells = {}) {
    SequenceHandle fork = SequenceHandle::kNone;
    KVD_CHECK_OK(memory_->sequences().Fork(source, kOwner, {&fork, 1}, cells));
    return fork;
  }
  // Returns the tokens in the state that the next step of the sequence would read.
  std::vector<TokenId> Seen(SequenceHandle handle) {
    StepPlan plan;
    const TokenId token = 0;
    const AppendRequest request{handle, memory_->sequences().Query(handle)->next_pos, {&token, 1}};
    const Status reserved = memory_->steps().Reserve({&request, 1}, plan);
    EXPECT_TRUE(reserved) << reserved.error().message;
    std::vector<TokenId> seen;
    if (const std::uint32_t from = plan.sequences[0].state_from; from != layout::kNoSlot) {
      const auto* state = reinterpret_cast<const TokenId*>(memory_->StateBytes(from));
      seen.assign(state + 1, state + 1 + state[0]);
    }
    memory_->steps().Abandon(plan, 0);
    memory_->steps().EndStep(plan);
    return seen;
  }
  void ExpectStateIsThatOfItsTokens(SequenceHandle handle) {
    EXPECT_EQ(Seen(handle), ContentsOf(*memory_, handle).tokens);
    ExpectConsistent();
  }
  Status Rewound(SequenceHandle handle, PosRange range, std::size_t slice = 3) {
    Rewind rewind;
    KVD_CHECK_OK(Into(memory_->states().BeginRewind(handle, range), &rewind));
    replayed_ = rewind.tokens.size();
    while (rewind.done < rewind.tokens.size()) {
      const std::size_t count = std::min(slice, rewind.tokens.size() - rewind.done);
      const std::uint32_t to =
          rewind.last_slot == rewind.slots[0] ? rewind.slots[1] : rewind.slots[0];
      Compute(rewind.done == 0 ? rewind.state_from : rewind.last_slot, to,
              std::span(rewind.tokens).subspan(rewind.done, count));
      rewind.last_slot = to;
      rewind.done += count;
    }
    return memory_->states().CommitRewind(rewind);
  }
  std::uint32_t FreeSlots() { return memory_->Usage().free_state_slots; }
  template <class T>
  Code CodeOf(const Result<T>& result) {
    return result ? Code::kOk : result.error().code;
  }

  std::unique_ptr<Memory> memory_;
  std::uint32_t last_slot_ = layout::kNoSlot;
  std::size_t replayed_ = 0;
};

TEST_F(StateMemoryTest, AStepWritesANewSlotAndFreesTheOldOne) {
  const SequenceHandle a = Make(5);
  EXPECT_EQ(FreeSlots(), 7u);
  ASSERT_TRUE(Append(a, 6, 40));
  EXPECT_EQ(FreeSlots(), 7u);
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(memory_->sequences().Clear(a));
  EXPECT_EQ(FreeSlots(), 8u);
  ExpectStateIsThatOfItsTokens(a);
}

TEST_F(StateMemoryTest, AForkSharesTheSlotUntilOneOfThemContinues) {
  const SequenceHandle a = Make(5);
  const SequenceHandle fork = *Fork(a);
  EXPECT_EQ(FreeSlots(), 7u);
  ASSERT_TRUE(Append(fork, 100, 3));
  EXPECT_EQ(FreeSlots(), 6u);
  ExpectStateIsThatOfItsTokens(a);
  ExpectStateIsThatOfItsTokens(fork);
  ASSERT_TRUE(memory_->sequences().Drop(a));
  // The fork keeps the state after its five shared tokens as a checkpoint.
  EXPECT_EQ(FreeSlots(), 6u);
  ASSERT_EQ(*memory_->sequences().RemoveRange(fork, {Pos{5}, kPosEnd}), 3u);
  ExpectStateIsThatOfItsTokens(fork);
}

TEST_F(StateMemoryTest, ATailIsRemovedAtOnceAtACheckpointAndReplayedElsewhere) {
  const SequenceHandle a = Make(10);
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a))
      << "a second checkpoint at the same cell has no effect";
  ASSERT_TRUE(Append(a, 11, 60));
  EXPECT_EQ(memory_->Usage().checkpoint_slots, 1u);
  const auto before = ContentsOf(*memory_, a);
  EXPECT_EQ(CodeOf(memory_->sequences().RemoveRange(a, {Pos{30}, kPosEnd})), Code::kNeedsReplay);
  EXPECT_EQ(ContentsOf(*memory_, a), before);
  ASSERT_TRUE(Rewound(a, {Pos{30}, kPosEnd}));
  EXPECT_EQ(replayed_, 20u);
  EXPECT_EQ(memory_->sequences().Query(a)->cell_count, 30u);
  ExpectStateIsThatOfItsTokens(a);
  EXPECT_EQ(*memory_->sequences().RemoveRange(a, {Pos{10}, kPosEnd}), 20u);
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(Append(a, 500, 4));
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(memory_->sequences().Drop(a));
  EXPECT_EQ(FreeSlots(), 8u);
}

TEST_F(StateMemoryTest, RemovingAMiddleRangeReplaysFromBeforeIt) {
  const SequenceHandle a = Make(10);
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  ASSERT_TRUE(Append(a, 11, 60));
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  ASSERT_TRUE(Append(a, 71, 9));
  ASSERT_TRUE(Rewound(a, {Pos{20}, Pos{40}}));
  EXPECT_EQ(replayed_, 49u);
  EXPECT_EQ(memory_->Usage().checkpoint_slots, 1u)
      << "checkpoints after the removed range are dropped";
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(Rewound(a, {Pos{0}, Pos{1}}));
  EXPECT_EQ(replayed_, 58u);
  ExpectStateIsThatOfItsTokens(a);
}

TEST_F(StateMemoryTest, ForksAndCopiesOfAPrefixNeedACheckpointAtItsEnd) {
  const SequenceHandle a = Make(10);
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  ASSERT_TRUE(Append(a, 11, 60));
  EXPECT_EQ(CodeOf(Fork(a, 20)), Code::kNeedsReplay);
  const SequenceHandle fork = *Fork(a, 10);
  ExpectStateIsThatOfItsTokens(fork);
  const SequenceHandle empty = *memory_->sequences().Create(kOwner);
  EXPECT_EQ(CodeOf(memory_->sequences().CopyRange(a, empty, {Pos{0}, Pos{20}})),
            Code::kNeedsReplay);
  EXPECT_EQ(CodeOf(memory_->sequences().CopyRange(a, empty, {Pos{5}, Pos{10}})),
            Code::kUnsupported);
  EXPECT_EQ(CodeOf(memory_->sequences().CopyRange(a, fork, {Pos{10}, Pos{20}})),
            Code::kUnsupported);
  EXPECT_EQ(*memory_->sequences().CopyRange(a, empty, {Pos{0}, Pos{10}}), 10u);
  ExpectStateIsThatOfItsTokens(empty);
  const SequenceHandle whole = *memory_->sequences().Create(kOwner);
  EXPECT_EQ(*memory_->sequences().CopyRange(a, whole, {}), 70u);
  ExpectStateIsThatOfItsTokens(whole);
}

TEST_F(StateMemoryTest, ShiftsDoNotChangeTheState) {
  const SequenceHandle a = Make(40);
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {Pos{20}, kPosEnd}, 7));
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(memory_->sequences().AddPositions(a, {}, 3));
  ExpectStateIsThatOfItsTokens(a);
  EXPECT_EQ(memory_->Usage().checkpoint_slots, 1u);
}

TEST_F(StateMemoryTest, RewindingAChangedSequenceIsAConflict) {
  const SequenceHandle a = Make(10);
  ASSERT_TRUE(Append(a, 11, 9));
  Rewind rewind;
  ASSERT_TRUE(Into(memory_->states().BeginRewind(a, {Pos{15}, kPosEnd}), &rewind));
  EXPECT_EQ(FreeSlots(), 5u);
  ASSERT_TRUE(Append(a, 20, 1));
  rewind.done = rewind.tokens.size();
  rewind.last_slot = rewind.slots[0];
  EXPECT_EQ(CodeOf(memory_->states().CommitRewind(rewind)), Code::kConflict);
  EXPECT_EQ(FreeSlots(), 7u);
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(Into(memory_->states().BeginRewind(a, {Pos{15}, kPosEnd}), &rewind));
  rewind.reservation.End();
  EXPECT_EQ(FreeSlots(), 7u);
}

TEST_F(StateMemoryTest, StepsEvictCheckpointsAndWithoutCheckpointsFailWithTheNumbers) {
  Use(3, 2);
  const SequenceHandle a = Make(10);
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  ASSERT_TRUE(Append(a, 11, 10));
  EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
  EXPECT_EQ(FreeSlots(), 1u);
  const SequenceHandle b = Make(3);
  EXPECT_EQ(FreeSlots(), 0u);
  ASSERT_TRUE(Append(a, 21, 1));  // evicts a checkpoint
  EXPECT_EQ(memory_->Usage().checkpoint_slots, 1u);
  const SequenceHandle c = *memory_->sequences().Create(kOwner);
  ExpectStateIsThatOfItsTokens(a);
  ASSERT_TRUE(Append(c, 1, 1));  // evicts the other checkpoint
  EXPECT_EQ(memory_->Usage().checkpoint_slots, 0u);
  const Status full = Append(c, 2, 1);
  EXPECT_EQ(CodeOf(full), Code::kNoSpace);
  EXPECT_THAT(full.error().message, HasSubstr("state slots: 1 needed, 0 free of 3"));
  EXPECT_EQ(memory_->sequences().Query(c)->cell_count, 1u);
  ASSERT_TRUE(memory_->sequences().Drop(b));
  ASSERT_TRUE(Append(c, 2, 1));
  ExpectStateIsThatOfItsTokens(c);
}

TEST_F(StateMemoryTest, CheckpointsAreThinnedOutAndNotDroppedTogether) {
  Use(64, 40);
  const SequenceHandle a = Make(1);
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(*memory_->states().KeepCheckpoint(a));
    ASSERT_TRUE(Append(a, 2 + i, 1));
  }
  EXPECT_EQ(memory_->Usage().checkpoint_slots, 16u);
  ASSERT_TRUE(Rewound(a, {Pos{20}, kPosEnd}));
  EXPECT_LE(replayed_, 10u);
  ExpectStateIsThatOfItsTokens(a);
}

TEST_F(StateMemoryTest, KeptLogitsAreDroppedWithTheSequenceOrTheNextToken) {
  const SequenceHandle a = Make(10);
  const float row[2] = {1.5f, -2.0f};
  float read[2] = {};
  EXPECT_FALSE(*memory_->states().ReadLogits(a, read));
  EXPECT_TRUE(*memory_->states().KeepLogits(a, row));
  const SequenceHandle fork = *Fork(a);
  EXPECT_TRUE(*memory_->states().ReadLogits(fork, read));
  EXPECT_EQ(read[0], 1.5f);
  EXPECT_EQ(read[1], -2.0f);
  ASSERT_TRUE(Append(a, 11, 1));
  EXPECT_FALSE(*memory_->states().ReadLogits(a, read));
  EXPECT_TRUE(*memory_->states().ReadLogits(fork, read));
  // The pool has two rows of logits, so a third row replaces one of them.
  EXPECT_TRUE(*memory_->states().KeepLogits(a, row));
  const SequenceHandle b = Make(2);
  EXPECT_TRUE(*memory_->states().KeepLogits(b, row));
  EXPECT_TRUE(*memory_->states().ReadLogits(b, read));
  EXPECT_EQ(*memory_->states().ReadLogits(a, read) + *memory_->states().ReadLogits(fork, read), 1);
  ASSERT_TRUE(memory_->sequences().AddPositions(b, {}, 1));
  EXPECT_FALSE(*memory_->states().ReadLogits(b, read));
}

TEST_F(StateMemoryTest, SnapshotsKeepTheirState) {
  const SequenceHandle a = Make(10);
  const SequenceHandle snapshot = *memory_->snapshots().Publish(a, kOwner, "name", false, false);
  ASSERT_TRUE(memory_->sequences().Drop(a));
  const SequenceHandle fork = *Fork(snapshot);
  ExpectStateIsThatOfItsTokens(fork);
  ASSERT_TRUE(memory_->snapshots().Unpublish("name", kOwner.id));
  ExpectStateIsThatOfItsTokens(fork);
  ASSERT_TRUE(memory_->sequences().Drop(fork));
  EXPECT_EQ(FreeSlots(), 8u);
}

TEST_F(StateMemoryTest, StateSlotsThatASaveAloneKeepsCountForItsReader) {
  RulesByOwner rules;
  rules.limits[kOwner.id].state_slots = 2;
  memory_->SetShareRules(&rules);
  const SequenceHandle saved = Make(5);
  SequenceHold hold;
  hold.owner = kOwner.id;
  ASSERT_TRUE(memory_->holds().Begin(saved, &hold));
  ASSERT_TRUE(memory_->sequences().Drop(saved));
  const SequenceHandle a = Make(5);
  const SequenceHandle b = *memory_->sequences().Create(kOwner);
  const Status refused = Append(b, 1, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "state slots: 1 more wanted, owner 1000 holds 2 of 2");
  memory_->holds().Release(hold);
  EXPECT_TRUE(Append(b, 1, 1));
  EXPECT_EQ(FreeSlots(), 6u);
  memory_->SetShareRules(nullptr);
  ExpectStateIsThatOfItsTokens(a);
}

}  // namespace
}  // namespace kvd
