#include "client/request_table.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kvd {
namespace {

TEST(RequestTableTest, IdsAreFoundUntilFreedAndNeverComeBack) {
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

TEST(RequestTableTest, AFreedEntryStartsAfresh) {
  RequestTable table;
  PendingRequest* request = table.Add(OutputMode::kInPlace);
  request->is_final = request->is_abandoned = true;
  request->pieces.push_back({});
  table.Free(request);
  PendingRequest* next = table.Add(OutputMode::kCollect);
  EXPECT_FALSE(next->is_final || next->is_abandoned || next->has_piece());
  EXPECT_TRUE(next->collected.empty());
}

TEST(RequestTableTest, TheWindowHoldsWhatWasSentAndHasNoAnswer) {
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

TEST(RequestTableTest, ThereIsALimit) {
  RequestTable table;
  for (std::size_t i = 0; i < RequestTable::kRequestsMax; ++i) {
    ASSERT_NE(table.Add(OutputMode::kCollect), nullptr);
  }
  EXPECT_EQ(table.Add(OutputMode::kCollect), nullptr);
}

}  // namespace
}  // namespace kvd
