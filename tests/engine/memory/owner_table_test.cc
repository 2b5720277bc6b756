// OwnerTable compared with a scan of all records after random changes of the records.
#include "engine/memory/owner_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvd {
namespace {

constexpr std::uint32_t kTableCapacity = 40;

class OwnerTableTest : public testing::Test {
 protected:
  layout::SequenceRecord& record(std::uint32_t index) { return records_[index]; }
  void Follow(std::uint32_t index) { table_.Follow(index, records_[index]); }
  void ExpectRight() {
    OwnerTable rebuilt(kTableCapacity);
    for (std::uint32_t index = 0; index < kTableCapacity; ++index) {
      if ((records_[index].flags & layout::kSequenceLive) != 0) {
        rebuilt.Follow(index, records_[index]);
      }
    }
    ASSERT_TRUE(table_ == rebuilt);
    for (std::uint32_t owner = 0; owner < 4; ++owner) {
      OwnerUse use;
      std::uint64_t last_request = 0;
      std::vector<std::uint32_t> retained, made;
      std::vector<std::uint32_t> own;
      for (std::uint32_t index = 0; index < kTableCapacity; ++index) {
        const layout::SequenceRecord& record = records_[index];
        if ((record.flags & layout::kSequenceLive) == 0) continue;
        if (record.owner == owner && !IsEvictable(record.flags)) {
          ++use.sequences;
          use.list_units += record.extents[0].capacity_units + record.checkpoints.capacity_units;
        }
        if (record.owner == owner && (record.flags & layout::kSequenceRetained) != 0) {
          retained.push_back(index);
        }
        if (record.owner_session == owner) {
          own.push_back(index);
          last_request = std::max(last_request, record.created_by);
          if (record.created_by == 2) made.push_back(index);
        }
        if (record.request_session == owner) last_request = std::max(last_request, record.request);
      }
      EXPECT_EQ(table_.UseOf(OwnerId{owner}), use);
      EXPECT_EQ(table_.LastRequest(owner), last_request);
      EXPECT_EQ(table_.CreatedBy(owner, 2), made);
      for (const std::size_t portion : {1u, 3u, 64u}) {
        EXPECT_EQ(List(portion,
                       [&](auto* cursor, auto indices) {
                         return table_.ListRetained(OwnerId{owner}, cursor, indices);
                       }),
                  retained);
        EXPECT_EQ(
            List(portion, [&](auto* cursor,
                              auto indices) { return table_.ListSession(owner, cursor, indices); }),
            own);
      }
    }
  }
  // Returns all indices that `next` lists in portions of `portion` indices, sorted.
  template <class Next>
  static std::vector<std::uint32_t> List(std::size_t portion, Next next) {
    OwnerTable::Cursor cursor;
    std::vector<std::uint32_t> indices(portion), all;
    std::size_t count = portion;
    while (count == portion) {
      count = next(&cursor, std::span(indices));
      all.insert(all.end(), indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count));
    }
    std::ranges::sort(all);
    return all;
  }

  std::vector<layout::SequenceRecord> records_ =
      std::vector<layout::SequenceRecord>(kTableCapacity);
  OwnerTable table_{kTableCapacity};
};

TEST_F(OwnerTableTest, AnEmptyTableCountsNothing) {
  EXPECT_EQ(table_.UseOf(OwnerId{7}), OwnerUse{});
  EXPECT_EQ(table_.LastSession(), 0u);
  EXPECT_EQ(table_.LastRequest(7), 0u);
  EXPECT_TRUE(table_.CreatedBy(7, 1).empty());
  ExpectRight();
}

TEST_F(OwnerTableTest, EveryLookupAgreesWithAFullScan) {
  std::mt19937 random(5);
  const auto pick = [&](std::uint32_t end) {
    return std::uniform_int_distribution<std::uint32_t>(0, end - 1)(random);
  };
  for (int change = 0; change < 3000; ++change) {
    const std::uint32_t index = pick(kTableCapacity);
    layout::SequenceRecord& record = records_[index];
    const bool was_live = (record.flags & layout::kSequenceLive) != 0;
    switch (was_live ? pick(6) : 5) {
      case 0: record.flags = 0; break;
      case 1: record.extents[0].capacity_units += pick(70); break;
      case 2: record.flags ^= layout::kSequenceRetained; break;
      case 3: record.flags ^= layout::kSequencePinned; break;
      case 4:
        record.request_session = 1 + pick(3);
        record.request = 1 + pick(9);
        break;
      default:
        record = {};
        record.flags = layout::kSequenceLive;
        record.owner = pick(4);
        record.owner_session = pick(4);
        record.created_by = pick(4);
        record.extents[0].capacity_units = pick(100);
        record.checkpoints.capacity_units = pick(3);
        break;
    }
    Follow(index);
    if (change % 20 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectRight());
    }
  }
  std::uint64_t last_session = 0;
  for (const layout::SequenceRecord& record : records_) {
    if ((record.flags & layout::kSequenceLive) != 0) {
      last_session = std::max(last_session, record.owner_session);
    }
  }
  EXPECT_EQ(table_.LastSession(), last_session);
}

TEST_F(OwnerTableTest, ASequenceDroppedDuringAListDoesNotEndTheList) {
  for (std::uint32_t index = 0; index < kTableCapacity; ++index) {
    record(index).flags = layout::kSequenceLive;
    record(index).owner_session = 3;
    Follow(index);
  }
  OwnerTable::Cursor cursor;
  std::vector<std::uint32_t> indices(10);
  ASSERT_EQ(table_.ListSession(3, &cursor, indices), 10u);
  for (std::uint32_t index = 8; index < 12; ++index) {
    record(index).flags = 0;
    Follow(index);
  }
  ASSERT_EQ(table_.ListSession(3, &cursor, indices), 10u);
  EXPECT_EQ(indices.front(), 12u);
  EXPECT_EQ(indices.back(), 21u);
}

}  // namespace
}  // namespace kvd
