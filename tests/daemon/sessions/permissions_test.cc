#include "daemon/sessions/owners.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

SequenceInfo OwnedBy(std::uint32_t uid, std::uint64_t session, std::uint32_t flags = 0) {
  SequenceInfo info;
  info.handle = MakeHandle(7, 1);
  info.owner = {.id = OwnerOf(uid), .session = static_cast<SessionId>(session)};
  info.flags = layout::kSequenceLive | flags;
  return info;
}

Caller CallerOf(std::uint32_t uid, std::uint64_t session) {
  return {.session = static_cast<SessionId>(session), .owner = OwnerOf(uid)};
}

TEST(PermissionsTest, OwningSessionMayDoEverything) {
  EXPECT_EQ(AccessOf(CallerOf(1, 10), OwnedBy(1, 10)), SequenceAccess::kChange);
}

TEST(PermissionsTest, AnotherSessionOfTheUidReadsFreelyAndChangesByForce) {
  EXPECT_EQ(AccessOf(CallerOf(1, 11), OwnedBy(1, 10)), SequenceAccess::kChangeByForce);
}

TEST(PermissionsTest, AnotherSessionOfTheUidChangesRetainedSequences) {
  EXPECT_EQ(AccessOf(CallerOf(1, 11), OwnedBy(1, 10, layout::kSequenceRetained)),
            SequenceAccess::kChange);
}

TEST(PermissionsTest, AnotherUidSeesNoPrivateSequence) {
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

constexpr wire::Access kAccesses[] = {wire::Access::kNone, wire::Access::kRead,
                                      wire::Access::kChange, wire::Access::kEdit,
                                      wire::Access::kOwn};

TEST(PermissionsTest, AnInvisibleSequenceIsNotFound) {
  const SequenceInfo hidden = OwnedBy(1, 10);
  const std::string wanted = FailNotFound("sequence", hidden.handle).error().message;
  for (const wire::Access access : kAccesses) {
    const Status status = CheckAccess(access, CallerOf(2, 20), hidden, true, "sequence");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kNotFound);
    EXPECT_EQ(status.error().message, wanted);
  }
}

TEST(PermissionsTest, ChangingNeedsTheForceFlagAndTheErrorNamesTheOwner) {
  const SequenceInfo info = OwnedBy(1, 10);
  for (const wire::Access access : {wire::Access::kChange, wire::Access::kEdit}) {
    const Status refused = CheckAccess(access, CallerOf(1, 11), info, false, "sequence");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kPermission);
    EXPECT_NE(refused.error().message.find("session 10"), std::string::npos);
    EXPECT_TRUE(CheckAccess(access, CallerOf(1, 11), info, true, "sequence"));
    EXPECT_TRUE(CheckAccess(access, CallerOf(1, 10), info, false, "sequence"));
  }
}

TEST(PermissionsTest, OwnAccessNeedsAPrivateSequenceOfTheSession) {
  const auto check = [](const Caller& caller, const SequenceInfo& info) {
    const Status status = CheckAccess(wire::Access::kOwn, caller, info, true, "sequence");
    return status ? Code::kOk : status.error().code;
  };
  EXPECT_EQ(check(CallerOf(1, 10), OwnedBy(1, 10)), Code::kOk);
  EXPECT_EQ(check(CallerOf(1, 11), OwnedBy(1, 10)), Code::kPermission);
  EXPECT_EQ(check(CallerOf(1, 10), OwnedBy(1, 10, layout::kSequencePublished)), Code::kPermission);
}

TEST(PermissionsTest, ReadingNeedsNoForce) {
  EXPECT_TRUE(CheckAccess(wire::Access::kRead, CallerOf(1, 11), OwnedBy(1, 10), false, "sequence"));
}

}  // namespace
}  // namespace kvd
