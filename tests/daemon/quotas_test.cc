#include "daemon/quotas.h"

#include <gtest/gtest.h>

namespace kvd {
namespace {

constexpr std::uint32_t kOwn = 0;
constexpr std::uint32_t kOther = 1000;

TEST(QuotasTest, OtherUidsHaveEightConnectionsAndTheNinthIsRefusedWithNumbers) {
  const QuotaPolicy policy({}, kOwn, true);
  EXPECT_TRUE(policy.CheckConnections(kOther, 7));
  const auto refused = policy.CheckConnections(kOther, 8);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_NE(refused.error().message.find("holds 8 of 8"), std::string::npos);
  EXPECT_TRUE(policy.CheckConnections(kOwn, 255));
  EXPECT_FALSE(policy.CheckConnections(kOwn, 256));
}

MemoryGeometry SomeGeometry() {
  MemoryGeometry geometry;
  geometry.meta.group_count = 2;
  geometry.meta.block_count[0] = 100;
  geometry.meta.block_count[1] = 40;
  geometry.meta.state_slot_count = 16;
  geometry.meta.logits_row_count = 3;
  geometry.meta.list_unit_count = 1000;
  geometry.checkpoint_slots = 8;
  return geometry;
}

TEST(QuotasTest, OtherUidsHaveAQuarterOfEverythingInTheMemory) {
  const OwnerLimits limits = QuotaPolicy({}, kOwn, true).LimitsOf(OwnerId{kOther}, SomeGeometry());
  EXPECT_EQ(limits.sequences, 64u);
  EXPECT_EQ(limits.blocks[0], 25u);
  EXPECT_EQ(limits.blocks[1], 10u);
  EXPECT_EQ(limits.state_slots, 4u);
  EXPECT_EQ(limits.checkpoint_slots, 2u);
  EXPECT_EQ(limits.list_units, 250u);
  EXPECT_EQ(limits.logits_rows, 1u) << "one at least";
  EXPECT_FALSE(limits.counts_all);
}

TEST(QuotasTest, OwnUidLeavesAReserveOnlyWhereOthersMayConnect) {
  const OwnerLimits limits = QuotaPolicy({}, kOwn, true).LimitsOf(OwnerId{kOwn}, SomeGeometry());
  EXPECT_EQ(limits.blocks[0], 95u);
  EXPECT_EQ(limits.state_slots, 15u);
  EXPECT_TRUE(limits.counts_all);
  const OwnerLimits alone = QuotaPolicy({}, kOwn, false).LimitsOf(OwnerId{kOwn}, SomeGeometry());
  EXPECT_EQ(alone.blocks[0], OwnerLimits{}.blocks[0]);
  EXPECT_EQ(alone.state_slots, OwnerLimits{}.state_slots);
}

TEST(QuotasTest, ResultArenasOfAllConnectionsCountTogether) {
  const QuotaPolicy policy({}, kOwn, true);
  EXPECT_TRUE(policy.CheckResultBytes(kOther, 60u << 20, 4u << 20));
  EXPECT_FALSE(policy.CheckResultBytes(kOther, 61u << 20, 4u << 20));
}

TEST(QuotasTest, SavedStatesOfAnotherUidCountTogether) {
  const QuotaPolicy policy({}, kOwn, true);
  EXPECT_TRUE(policy.CheckSavedBytes(kOther, 3ull << 30, 1ull << 30));
  const Status refused = policy.CheckSavedBytes(kOther, 3ull << 30, (1ull << 30) + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
}

TEST(QuotasTest, RequestsInFlightAreLimited) {
  const QuotaPolicy policy({}, kOwn, true);
  EXPECT_TRUE(policy.CheckRequests(kOther, 255));
  EXPECT_FALSE(policy.CheckRequests(kOther, 256));
}

TEST(QuotasTest, RequestArenasAndHeldBytesHaveLimitsOfTheirOwn) {
  Quotas quotas;
  quotas.others.request_arena_bytes = 100;
  quotas.others.held_bytes = 50;
  const QuotaPolicy policy(quotas, 1000, true);
  EXPECT_TRUE(policy.CheckRequestBytes(1001, 60, 40));
  EXPECT_EQ(policy.CheckRequestBytes(1001, 60, 41).error().message,
            "request arena bytes: 41 more wanted, uid 1001 holds 60 of 100");
  EXPECT_TRUE(policy.CheckHeldBytes(1001, 0, 50));
  EXPECT_EQ(policy.CheckHeldBytes(1001, 0, 51).error().code, Code::kNoSpace);
  EXPECT_TRUE(policy.CheckRequestBytes(1000, 1 << 30, 1 << 30));
  EXPECT_TRUE(policy.CheckHeldBytes(1000, 1 << 30, 1 << 30));
  const QuotaPolicy defaults({}, 1000, true);
  EXPECT_TRUE(defaults.CheckRequestBytes(1001, 0, 64ull << 20));
  EXPECT_FALSE(defaults.CheckRequestBytes(1001, 0, (64ull << 20) + 1));
  EXPECT_TRUE(defaults.CheckHeldBytes(1001, 0, 256ull << 20));
  EXPECT_FALSE(defaults.CheckHeldBytes(1001, 0, (256ull << 20) + 1));
}

}  // namespace
}  // namespace kvd
