// Cells that sequences give back for lack of room, and the tokens that stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/crc32c.h"
#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kBlock = layout::kBlockCells;
constexpr RequestTag kTag{.session = SessionId{7}, .request = RequestId{3}};

// A context of 40 cells and a fork of it with 50 cells of its own, in a pool of 8 blocks.
class GivingBackTest : public ::testing::Test {
 protected:
  GivingBackTest() {
    EXPECT_TRUE(AppendTokens(*memory_, context_, 100, 40));
    EXPECT_TRUE(memory_->sequences().Fork(context_, kOwner, {&fork_, 1}));
    EXPECT_TRUE(Append(fork_, 500, 50));
    before_ = ContentsOf(*memory_, fork_);
  }

  SequenceHandle NewSequence() { return *memory_->sequences().Create(kOwner); }
  std::uint64_t FreeBlocks() { return memory_->Usage().free_blocks; }
  SequenceInfo Query(SequenceHandle handle) { return *memory_->sequences().Query(handle); }
  Status Append(SequenceHandle handle, TokenId first, std::size_t count) {
    std::vector<TokenId> tokens;
    for (std::size_t k = 0; k < count; ++k) tokens.push_back(first + static_cast<TokenId>(k));
    return Append(handle, tokens);
  }
  Status Append(SequenceHandle handle, const std::vector<TokenId>& tokens) {
    StepPlan plan;
    const AppendRequest request{
        .handle = handle, .pos = Query(handle).next_pos, .tokens = tokens, .applied = kTag};
    KVD_CHECK_OK(memory_->steps().Reserve({&request, 1}, plan));
    Status status = memory_->steps().Commit(plan, 0);
    memory_->steps().EndStep(plan);
    return status;
  }

  std::unique_ptr<Memory> memory_ = MakeMemory(SmallOptions(8 * kBlock));
  SequenceHandle context_ = NewSequence();
  SequenceHandle fork_ = SequenceHandle::kNone;
  Contents before_;
};

TEST_F(GivingBackTest, TheCellsBehindTheKeptOnesAreFreedAndTheirTokensStay) {
  const std::uint64_t free = FreeBlocks();
  const std::optional<GivableCells> givable = memory_->sequences().FindGivable(fork_, 64);
  ASSERT_TRUE(givable);
  ASSERT_TRUE(memory_->sequences().GiveBack(fork_, 64));
  const SequenceInfo info = Query(fork_);
  EXPECT_EQ(info.cell_count, givable->first);
  EXPECT_EQ(info.given_count, 90 - givable->first);
  EXPECT_EQ(info.next_pos.value, static_cast<std::int32_t>(givable->first));
  EXPECT_GT(FreeBlocks(), free);
  const std::vector<TokenId> given = *memory_->sequences().GivenTokens(fork_);
  EXPECT_EQ(given,
            std::vector<TokenId>(before_.tokens.begin() + givable->first, before_.tokens.end()));
  EXPECT_EQ(ContentsOf(*memory_, context_).tokens.size(), 40u);
  ExpectPrefixIndex(*memory_);
}

TEST_F(GivingBackTest, UntilTheTokensAreComputedAgainTheSequenceIsBusy) {
  ASSERT_TRUE(memory_->sequences().GiveBack(fork_, 64));
  const auto is_busy = [](const auto& result) {
    return !result && result.error().code == Code::kBusy &&
           result.error().message.find("given their cells back") != std::string::npos;
  };
  SequenceHandle made = SequenceHandle::kNone;
  EXPECT_TRUE(is_busy(memory_->sequences().Fork(fork_, kOwner, {&made, 1})));
  EXPECT_TRUE(is_busy(memory_->snapshots().Publish(fork_, kOwner, "notes", false, false)));
  EXPECT_TRUE(is_busy(memory_->sequences().RemoveRange(fork_, {Pos{1}, Pos{2}})));
  EXPECT_TRUE(is_busy(memory_->sequences().AddPositions(fork_, {Pos{30}, kPosEnd}, 2)));
  EXPECT_TRUE(is_busy(memory_->sequences().CopyRange(fork_, NewSequence(), {})));
  SequenceHold hold;
  EXPECT_TRUE(is_busy(memory_->holds().Begin(fork_, &hold)));
}

TEST_F(GivingBackTest, TheSequenceIsWholeAgainWhenItsTokensAreAppended) {
  ASSERT_TRUE(memory_->sequences().GiveBack(fork_, 64));
  std::vector<TokenId> given = *memory_->sequences().GivenTokens(fork_);
  const std::vector<TokenId> first(given.begin(), given.begin() + 10);
  EXPECT_EQ(Append(fork_, {1, 2, 3}).error().code, Code::kConflict) << "other tokens";
  ASSERT_TRUE(Append(fork_, first));
  EXPECT_EQ(Query(fork_).given_count, given.size() - 10);
  given.erase(given.begin(), given.begin() + 10);
  EXPECT_EQ(*memory_->sequences().GivenTokens(fork_), given);
  ASSERT_TRUE(Append(fork_, given));
  EXPECT_EQ(Query(fork_).given_count, 0u);
  EXPECT_EQ(ContentsOf(*memory_, fork_), before_);
  EXPECT_EQ(Query(fork_).request_first_cell, 40u) << "the request's tokens are still its own";
  EXPECT_TRUE(Append(fork_, 900, 1));
}

TEST_F(GivingBackTest, ASequenceWhoseCellsFreeNothingGivesNoneBack) {
  SequenceHandle sibling = SequenceHandle::kNone;
  ASSERT_TRUE(memory_->sequences().Fork(fork_, kOwner, {&sibling, 1}));
  EXPECT_FALSE(memory_->sequences().FindGivable(fork_, 64)) << "the sibling refers to all cells";
  EXPECT_EQ(memory_->sequences().GiveBack(fork_, 64).error().code, Code::kUnsupported);
  ASSERT_TRUE(memory_->sequences().Drop(sibling));
  EXPECT_TRUE(memory_->sequences().FindGivable(fork_, 64));
  EXPECT_FALSE(memory_->sequences().FindGivable(fork_, 90)) << "no cell is behind";
  ASSERT_TRUE(memory_->sequences().RemoveRange(fork_, {Pos{50}, Pos{51}}));
  EXPECT_FALSE(memory_->sequences().FindGivable(fork_, 64)) << "it was edited";
  const SequenceHandle context = context_;
  ASSERT_TRUE(memory_->sequences().SetOwner(context, kOwner, layout::kSequencePinned, 0));
  EXPECT_FALSE(memory_->sequences().FindGivable(context, 0)) << "it is pinned";
}

TEST_F(GivingBackTest, ForgottenTokensFreeTheirListAndAReleaseForgetsThem) {
  const std::uint64_t units = memory_->Usage().list_units_free;
  ASSERT_TRUE(memory_->sequences().GiveBack(fork_, 64));
  ASSERT_TRUE(memory_->sequences().ForgetGiven(fork_));
  EXPECT_EQ(Query(fork_).given_count, 0u);
  EXPECT_GE(memory_->Usage().list_units_free, units);
  EXPECT_TRUE(memory_->sequences().RemoveRange(fork_, {Pos{39}, kPosEnd}));

  const SequenceHandle other = NewSequence();
  ASSERT_TRUE(AppendTokens(*memory_, other, 700, 70));
  ASSERT_TRUE(memory_->sequences().GiveBack(other, 32));
  EXPECT_TRUE(*memory_->prefixes().Retain(other));
  EXPECT_EQ(Query(other).given_count, 0u);
  EXPECT_EQ(Query(other).cell_count, 32u);
}

// A copy of `meta` with a sequence that has given cells back, which a test damages.
struct DamagedCopy : MetaCopy {
  DamagedCopy(std::span<const std::byte> bytes, const ConstMetaView& view)
      : MetaCopy(bytes), meta(this->bytes().data(), view.offsets(), view.geometry()) {}
  layout::SequenceRecord& record() const { return meta.sequences()[1]; }
  TokenId& token() const { return meta.token_list(record().given.first_unit)[0]; }
  void Seal() const { record().given.crc = Crc32c(0, std::as_bytes(meta.tokens(record().given))); }
  MetaView meta;
};

TEST_F(GivingBackTest, ALaterProcessFindsTheTokensAndNamesWhatIsWrongWithThem) {
  ASSERT_TRUE(memory_->sequences().GiveBack(fork_, 64));
  const ConstMetaView view = *ValidateHeader(memory_->meta_bytes());
  ASSERT_EQ(IndexOf(fork_), 1u);
  const DamagedCopy whole(memory_->meta_bytes(), view);
  const Result<DerivedTables> tables = RebuildTables(whole.bytes());
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_EQ(tables->lists.free_units(), memory_->Usage().list_units_free);

  const auto expect = [&](const char* field, auto damage) {
    const DamagedCopy copy(memory_->meta_bytes(), view);
    damage(copy);
    const Result<DerivedTables> damaged = RebuildTables(copy.bytes());
    ASSERT_FALSE(damaged) << field;
    EXPECT_EQ(damaged.error().code, Code::kCorrupt);
    EXPECT_THAT(damaged.error().message, HasSubstr(field));
  };
  expect("given crc", [](const DamagedCopy& copy) { ++copy.token(); });
  expect("given token: -1", [](const DamagedCopy& copy) {
    copy.token() = -1;
    copy.Seal();
  });
  expect("given entry_count", [](const DamagedCopy& copy) { copy.record().given.entry_count = 0; });
  expect("given entry_count",
         [](const DamagedCopy& copy) { copy.record().given.entry_count = 65; });
  expect("given first_unit", [](const DamagedCopy& copy) { copy.record().given.first_unit = ~1u; });
  expect("given_from", [](const DamagedCopy& copy) { ++copy.record().given_from; });
  expect("given_from", [](const DamagedCopy& copy) { copy.record().given_from = 1; });
  expect("given_from", [](const DamagedCopy& copy) { copy.record().given = kEmptyList; });
  expect("given: the sequence is retained",
         [](const DamagedCopy& copy) { copy.record().flags |= layout::kSequenceRetained; });
  expect("overlaps another list",
         [](const DamagedCopy& copy) { copy.record().given = copy.record().extents[0]; });
}

TEST_F(GivingBackTest, RoomIsGivenInTheOrderOfTheClaims) {
  const SequenceHandle others[] = {NewSequence(), NewSequence(), NewSequence()};
  const std::uint64_t free = FreeBlocks();
  ASSERT_EQ(free, 5u);
  RoomClaim claims[] = {{.handle = fork_, .tokens = 1},
                        {.handle = others[0], .tokens = 4 * kBlock},
                        {.handle = others[1], .tokens = 2 * kBlock},
                        {.handle = others[2], .tokens = 1},
                        {.handle = fork_, .tokens = 8}};
  memory_->steps().FindRoom(claims);
  EXPECT_EQ(claims[0].verdict, RoomVerdict::kFits);
  EXPECT_EQ(claims[1].verdict, RoomVerdict::kFits);
  EXPECT_EQ(claims[2].verdict, RoomVerdict::kWaits);
  EXPECT_THAT(claims[2].reason.message, HasSubstr("2 blocks needed"));
  EXPECT_EQ(claims[3].verdict, RoomVerdict::kWaits) << "an earlier claim of the owner waits";
  EXPECT_TRUE(claims[3].is_behind_owner);
  RoomClaim large{.handle = others[0], .tokens = 9 * kBlock};
  memory_->steps().FindRoom({&large, 1});
  EXPECT_EQ(large.verdict, RoomVerdict::kNever);
}

}  // namespace
}  // namespace kvd
