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

TEST(QuotasTest, SequencesAreCountedTogetherWithThoseWanted) {
  const QuotaPolicy policy({}, kOwn, true);
  EXPECT_TRUE(policy.CheckSequences(kOther, 0, 64));
  EXPECT_FALSE(policy.CheckSequences(kOther, 1, 64));
  EXPECT_FALSE(policy.CheckSequences(kOther, 0, ~std::uint64_t{0}));
}

TEST(QuotasTest, OtherUidsHaveAQuarterOfThePool) {
  const QuotaPolicy policy({}, kOwn, true);
  EXPECT_EQ(policy.BlocksMax(kOther, 100), 25u);
  EXPECT_TRUE(policy.CheckBlocks(kOther, 20, 5, 100));
  EXPECT_FALSE(policy.CheckBlocks(kOther, 20, 6, 100));
}

TEST(QuotasTest, OwnUidLeavesAReserveOnlyWhereOthersMayConnect) {
  EXPECT_EQ(QuotaPolicy({}, kOwn, true).BlocksMax(kOwn, 100), 95u);
  EXPECT_EQ(QuotaPolicy({}, kOwn, false).BlocksMax(kOwn, 100), 100u);
  EXPECT_FALSE(QuotaPolicy({}, kOwn, false).limits_pool(kOwn));
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
