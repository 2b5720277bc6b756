#include "client/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvd {
namespace {

TEST(OutputLedgerTest, TheCursorMovesOnlyWhenTheOldestOutputIsReleased) {
  OutputLedger ledger;
  const auto a = ledger.Hold(64);
  const auto b = ledger.Hold(128);
  const auto c = ledger.Hold(192);
  EXPECT_FALSE(ledger.Release(b).cursor.has_value());
  EXPECT_EQ(ledger.Release(a).cursor, 128u);
  EXPECT_EQ(ledger.Release(c).cursor, 192u);
  EXPECT_EQ(ledger.held_count(), 0u);
}

TEST(OutputLedgerTest, ReleasingTwiceOrAnUnknownOutputChangesNothing) {
  OutputLedger ledger;
  const auto a = ledger.Hold(64);
  const auto b = ledger.Hold(128);
  EXPECT_TRUE(ledger.Release(b).was_held);
  EXPECT_FALSE(ledger.Release(b).was_held);
  EXPECT_FALSE(ledger.Release(0).was_held);
  EXPECT_FALSE(ledger.Release(77).was_held);
  EXPECT_EQ(ledger.Release(a).cursor, 128u);
  EXPECT_FALSE(ledger.Release(a).was_held);
}

TEST(OutputLedgerTest, ReleasesInRandomOrderReachTheLastCursor) {
  OutputLedger ledger;
  std::mt19937 random(5);
  std::vector<std::uint64_t> tickets;
  for (std::uint64_t i = 1; i <= 5000; ++i) tickets.push_back(ledger.Hold(i * 64));
  std::ranges::shuffle(tickets, random);
  std::uint64_t last = 0;
  for (const std::uint64_t ticket : tickets) {
    const auto released = ledger.Release(ticket);
    ASSERT_TRUE(released.was_held);
    if (!released.cursor) continue;
    ASSERT_GT(*released.cursor, last);
    last = *released.cursor;
  }
  EXPECT_EQ(last, 5000u * 64);
}

}  // namespace
}  // namespace kvd
