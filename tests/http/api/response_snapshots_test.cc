// Tests which snapshots of stored responses are dropped.
#include "http/api/response_snapshots.h"

#include <gmock/gmock.h>

namespace kvd::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ResponseSnapshotsTest, TheOldestBeyondTheCountAreDropped) {
  EXPECT_THAT(SnapshotsBeyond({{"b", 20, 1}, {"c", 30, 1}, {"a", 10, 1}}, 2, 100),
              ElementsAre("c"));
  EXPECT_THAT(SnapshotsBeyond({{"b", 20, 1}, {"a", 10, 1}}, 2, 100), IsEmpty());
}

TEST(ResponseSnapshotsTest, TheOldestBeyondTheBytesAreDropped) {
  EXPECT_THAT(SnapshotsBeyond({{"old", 30, 50}, {"new", 10, 60}, {"mid", 20, 40}}, 9, 100),
              ElementsAre("old"));
  // A small one that is older than a dropped one is dropped, too.
  EXPECT_THAT(SnapshotsBeyond({{"old", 30, 1}, {"new", 10, 60}, {"mid", 20, 50}}, 9, 100),
              ElementsAre("mid", "old"));
  EXPECT_THAT(SnapshotsBeyond({{"new", 10, 60}}, 9, 0), ElementsAre("new"));
}

}  // namespace
}  // namespace kvd::http
