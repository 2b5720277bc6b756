// Tests that the resources of a reservation are not available to others until the reservation ends,
// by End, GiveBack, assignment or destruction.
#include "engine/memory/reservation.h"

#include <gtest/gtest.h>

#include <utility>

#include "engine/memory/memory_store.h"
#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

class TwoBlocks final : public ShareRules {
 public:
  OwnerLimits LimitsOf(OwnerId, const MemoryGeometry&) const override {
    OwnerLimits limits;
    limits.blocks[0] = 2;
    return limits;
  }
};

// A store with four blocks, four state slots and two rows of logits; each owner may hold two
// blocks.
class ReservationTest : public ::testing::Test {
 protected:
  static MemorySegments MakeSegments() {
    MemoryOptions options = SmallOptions(4 * 32);
    options.state_bytes = 64;
    options.state_slots = 4;
    options.logits_bytes = 64;
    options.logits_rows = 2;
    return *MemorySegments::CreateAnonymous(*ComputeGeometry(options));
  }

  struct Free {
    std::uint32_t blocks = 0, states = 0, logits = 0;
    std::size_t pending = 0;
    std::uint32_t pauses = 0;
    friend bool operator==(const Free&, const Free&) = default;
  };
  Free Now() {
    const MutexLock lock(store_.mutex);
    return {store_.allocators[0].free_blocks(), store_.states.free_slots(),
            store_.logits.free_slots(), store_.shares.pending.size(),
            store_.defragmentation_pauses};
  }
  // Returns a reservation of one block, one state slot and one row of logits that also pauses the
  // defragmentation.
  Reservation Take() {
    Reservation reservation(store_);
    const MutexLock growth(store_.growth_mutex);
    const MutexLock lock(store_.mutex);
    EXPECT_TRUE(reservation.Count({.owner = OwnerId{7}, .blocks = {1}}));
    reservation.TakeBlock(0, 32);
    reservation.TakeState();
    reservation.TakeLogits();
    reservation.PauseDefragmentation();
    return reservation;
  }

  const TwoBlocks rules_;
  MemoryStore store_{MakeSegments()};
  const Free all_ = Now();

  void SetUp() override {
    const MutexLock lock(store_.mutex);
    store_.shares.rules = &rules_;
  }
};

TEST_F(ReservationTest, AReservationReturnsItsAmountAtTheEnd) {
  const Free one_less{all_.blocks - 1, all_.states - 1, all_.logits - 1, 1, 1};
  {
    const Reservation reservation = Take();
    EXPECT_TRUE(reservation.is_open());
    EXPECT_EQ(Now(), one_less);
  }
  EXPECT_EQ(Now(), all_);
}

TEST_F(ReservationTest, AMovedReservationReturnsItsAmountOnce) {
  Reservation first = Take();
  Reservation second = std::move(first);
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): tests the moved-from object
  first.End();
  EXPECT_NE(Now(), all_);
  second.End();
  EXPECT_EQ(Now(), all_);
  second.End();
  EXPECT_EQ(Now(), all_);
}

TEST_F(ReservationTest, AssignmentReturnsTheEarlierAmount) {
  Reservation kept = Take();
  {
    Reservation other = Take();
    EXPECT_EQ(Now().blocks, all_.blocks - 2);
    kept = std::move(other);
    EXPECT_EQ(Now().blocks, all_.blocks - 1);
  }
  EXPECT_EQ(Now().blocks, all_.blocks - 1);
  kept = Reservation();
  EXPECT_EQ(Now(), all_);
}

TEST_F(ReservationTest, AReturnedReservationCanBeOpenedAgain) {
  Reservation reservation = Take();
  {
    const MutexLock lock(store_.mutex);
    reservation.GiveBack();
    EXPECT_FALSE(reservation.is_open());
    reservation.Open(store_);
    EXPECT_TRUE(reservation.blocks(0).empty());
  }
  EXPECT_EQ(Now(), all_);
}

TEST_F(ReservationTest, ARefusedUseIsNotCounted) {
  Reservation reservation(store_);
  const MutexLock lock(store_.mutex);
  const Status refused = reservation.Count({.owner = OwnerId{7}, .blocks = {3}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "pool blocks: 3 more wanted, owner 7 holds 0 of 2");
  EXPECT_TRUE(reservation.Count({.owner = OwnerId{7}, .blocks = {2}}));
  reservation.Uncount();
  EXPECT_TRUE(store_.shares.pending.empty());
  reservation.GiveBack();
}

TEST_F(ReservationTest, AKeptStateStaysAfterItsLastReference) {
  Reservation taker = Take();
  Reservation keeper(store_);
  std::uint32_t slot = 0;
  {
    const MutexLock lock(store_.mutex);
    slot = taker.TakeState();
    keeper.KeepState(slot);
    keeper.KeepState(layout::kNoSlot);
    taker.GiveBack();
    EXPECT_FALSE(store_.states.is_free(slot));
  }
  keeper.End();
  EXPECT_EQ(Now(), all_);
}

}  // namespace
}  // namespace kvd
