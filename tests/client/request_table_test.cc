#include "client/request_table.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kvd {
namespace {

TEST(RequestTableTest, IdsAreFoundUntilFreedAndNeverReused) {
  RequestTable table;
  std::set<RequestId> seen;
  for (int i = 0; i < 1000; ++i) {
    PendingRequest* request = table.Add(OutputMode::kCollect);
    const RequestId id = request->id;
    EXPECT_TRUE(seen.insert(id).second);
    EXPECT_EQ(table.Find(id), request);
    if (i % 3 == 0) continue;
    request->collected.resize(10);
    table.Free(request);
    EXPECT_EQ(table.Find(id), nullptr);
  }
  EXPECT_EQ(table.count(), 334u);
  EXPECT_EQ(table.Find(RequestId{}), nullptr);
  EXPECT_EQ(table.Find(static_cast<RequestId>(~0ull)), nullptr);
}

TEST(RequestTableTest, AFreedEntryIsReset) {
  RequestTable table;
  PendingRequest* request = table.Add(OutputMode::kInPlace);
  request->is_final = request->is_abandoned = true;
  request->pieces.push_back({});
  table.Free(request);
  PendingRequest* next = table.Add(OutputMode::kCollect);
  EXPECT_FALSE(next->is_final || next->is_abandoned || next->has_piece());
  EXPECT_TRUE(next->collected.empty());
}

TEST(RequestTableTest, TheWindowHoldsRequestsThatWereSentAndNotAnswered) {
  RequestTable table;
  std::vector<PendingRequest*> sent;
  for (std::size_t i = 0; i < layout::kAppliedMax; ++i) {
    sent.push_back(table.Add(OutputMode::kCollect, true));
    ASSERT_TRUE(table.FitsWindow(*sent.back()));
    table.EnterWindow(sent.back());
  }
  PendingRequest* const next = table.Add(OutputMode::kCollect, true);
  EXPECT_FALSE(table.FitsWindow(*next));
  EXPECT_TRUE(table.FitsWindow(*sent.front())) << "to be sent again";
  EXPECT_TRUE(table.FitsWindow(*table.Add(OutputMode::kCollect)));
  table.LeaveWindow(sent.front());
  EXPECT_TRUE(table.FitsWindow(*next));
  table.EnterWindow(next);
  table.Free(sent.front());  // request has left the window
  EXPECT_FALSE(table.FitsWindow(*table.Add(OutputMode::kCollect, true)));
  table.Free(next);
  EXPECT_TRUE(table.FitsWindow(*table.Add(OutputMode::kCollect, true)));
}

TEST(RequestTableTest, AnAdoptedRequestIsFoundLikeOthers) {
  RequestTable table;
  PendingRequest* const own = table.Add(OutputMode::kCollect);
  // The same index as that of `own`, in use, and an index that the table does not have yet.
  const auto same_index =
      static_cast<RequestId>(static_cast<std::uint64_t>(own->id) + 7 * RequestTable::kRequestsMax);
  const RequestId far{3 * RequestTable::kRequestsMax + 500};
  for (const RequestId id : {same_index, far}) {
    PendingRequest* const adopted = table.Adopt(id, OutputMode::kInPlace, true);
    ASSERT_NE(adopted, nullptr);
    EXPECT_EQ(table.Find(id), adopted);
    EXPECT_EQ(adopted->id, id);
    EXPECT_EQ(adopted->mode, OutputMode::kInPlace);
    table.EnterWindow(adopted);
  }
  EXPECT_EQ(table.Find(own->id), own);
  EXPECT_EQ(table.count(), 3u);
  EXPECT_EQ(table.Unanswered(), (std::vector{own, table.Find(far), table.Find(same_index)}));
  table.Find(far)->is_final = true;
  EXPECT_EQ(table.Ready(), std::vector{far});
  table.Free(table.Find(far));
  EXPECT_EQ(table.Find(far), nullptr);
  EXPECT_EQ(table.count(), 2u);
  // Ids that are given later are larger than the ids of the adopted requests.
  EXPECT_GT(table.Add(OutputMode::kCollect)->id, same_index);
  table.Free(table.Find(same_index));
  for (std::size_t i = 0; i < layout::kAppliedMax; ++i) {
    PendingRequest* const request = table.Add(OutputMode::kCollect, true);
    ASSERT_TRUE(table.FitsWindow(*request)) << "an adopted request has left the window";
    table.EnterWindow(request);
  }
}

TEST(RequestTableTest, AnotherProcessSkipsIdsThatLeftNoRecord) {
  RequestTable table;
  const std::uint64_t last = 41 * RequestTable::kRequestsMax + 3;
  table.BeginFarAfter(last);
  const auto first = static_cast<std::uint64_t>(table.Add(OutputMode::kCollect)->id);
  EXPECT_GE(first, last + (std::uint64_t{1} << 32) * RequestTable::kRequestsMax);
  // Near the end of the ids, half of those left are skipped.
  const std::uint64_t late = ~std::uint64_t{0} - 1000 * RequestTable::kRequestsMax;
  table.BeginFarAfter(late);
  EXPECT_GT(static_cast<std::uint64_t>(table.Add(OutputMode::kCollect)->id), late);
}

TEST(RequestTableTest, TheNumberOfRequestsIsLimited) {
  RequestTable table;
  for (std::size_t i = 0; i < RequestTable::kRequestsMax; ++i) {
    ASSERT_NE(table.Add(OutputMode::kCollect), nullptr);
  }
  EXPECT_EQ(table.Add(OutputMode::kCollect), nullptr);
  const RequestId earlier{~std::uint64_t{0}};
  EXPECT_EQ(table.Adopt(earlier, OutputMode::kCollect, false), nullptr);
  table.Free(table.Find(RequestId{RequestTable::kRequestsMax}));
  EXPECT_NE(table.Adopt(earlier, OutputMode::kCollect, false), nullptr);
  EXPECT_EQ(table.Add(OutputMode::kCollect), nullptr);
}

}  // namespace
}  // namespace kvd
