#include "daemon/permissions.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

SequenceInfo OwnedBy(std::uint32_t uid, std::uint64_t session, std::uint32_t flags = 0) {
  SequenceInfo info;
  info.handle = MakeHandle(7, 1);
  info.owner = {.uid = uid, .session = static_cast<SessionId>(session)};
  info.flags = layout::kSequenceLive | flags;
  return info;
}

Caller CallerOf(std::uint32_t uid, std::uint64_t session) {
  return {.session = static_cast<SessionId>(session), .uid = uid};
}

TEST(PermissionsTest, OwningSessionMayDoEverything) {
  EXPECT_EQ(AccessOf(CallerOf(1, 10), OwnedBy(1, 10)), SequenceAccess::kChange);
}

TEST(PermissionsTest, AnotherSessionOfTheUidReadsAndChangesByForce) {
  EXPECT_EQ(AccessOf(CallerOf(1, 11), OwnedBy(1, 10)), SequenceAccess::kChangeByForce);
}

TEST(PermissionsTest, AnotherSessionOfTheUidChangesRetainedOnes) {
  EXPECT_EQ(AccessOf(CallerOf(1, 11), OwnedBy(1, 10, layout::kSequenceRetained)),
            SequenceAccess::kChange);
}

TEST(PermissionsTest, AnotherUidSeesNothingPrivate) {
  for (const std::uint32_t flags :
       {0u, std::uint32_t{layout::kSequenceRetained}, std::uint32_t{layout::kSequencePublished}}) {
    EXPECT_EQ(AccessOf(CallerOf(2, 10), OwnedBy(1, 10, flags)), SequenceAccess::kNone);
  }
}

TEST(PermissionsTest, AnotherUidReadsPublicSnapshotsOnly) {
  SequenceInfo snapshot = OwnedBy(1, 10, layout::kSequencePublished);
  snapshot.is_public = true;
  EXPECT_EQ(AccessOf(CallerOf(2, 20), snapshot), SequenceAccess::kRead);
  EXPECT_EQ(AccessOf(CallerOf(2, 20), OwnedBy(1, 10)), SequenceAccess::kNone);
}

TEST(PermissionsTest, PublishedSequencesAreImmutableForTheirOwnerToo) {
  EXPECT_EQ(AccessOf(CallerOf(1, 10), OwnedBy(1, 10, layout::kSequencePublished)),
            SequenceAccess::kRead);
}

TEST(PermissionsTest, WhatMayNotBeSeenDoesNotExist) {
  const auto hidden = CheckRead(SequenceAccess::kNone, "sequence", MakeHandle(7, 1));
  ASSERT_FALSE(hidden);
  EXPECT_EQ(hidden.error().code, Code::kNotFound);
  EXPECT_EQ(CheckChange(SequenceAccess::kNone, true, "sequence", OwnedBy(1, 10)).error().message,
            hidden.error().message);
}

TEST(PermissionsTest, ChangingByForceNeedsTheFlagAndNamesTheOwner) {
  const SequenceInfo info = OwnedBy(1, 10);
  const auto refused = CheckChange(SequenceAccess::kChangeByForce, false, "sequence", info);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermission);
  EXPECT_NE(refused.error().message.find("session 10"), std::string::npos);
  EXPECT_TRUE(CheckChange(SequenceAccess::kChangeByForce, true, "sequence", info));
}

}  // namespace
}  // namespace kvd
