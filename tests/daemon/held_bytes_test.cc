// What the daemon holds for a uid, and uploads, which count for it.
#include "daemon/held_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/state_upload.h"

namespace kvd {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kOwn = 1000;
constexpr std::uint32_t kOther = 1001;

Quotas Limited(std::uint64_t bytes) {
  Quotas quotas;
  quotas.others.held_bytes = bytes;
  return quotas;
}

TEST(HeldBytesTest, AChargeCountsUntilItGoes) {
  const QuotaPolicy quotas(Limited(100), kOwn, true);
  HeldBytes held(quotas);
  const auto account = held.AccountOf(kOther);
  EXPECT_EQ(held.AccountOf(kOther), account);
  {
    HeldCharge charge(account);
    ASSERT_TRUE(charge.Grow(60));
    ASSERT_TRUE(charge.Grow(40));
    EXPECT_EQ(account->bytes(), 100u);
    HeldCharge other(account);
    const Status refused = other.Grow(1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kNoSpace);
    EXPECT_THAT(refused.error().message,
                HasSubstr("held bytes: 1 more wanted, uid 1001 holds 100 of 100"));
    EXPECT_TRUE(HeldCharge(held.AccountOf(kOwn)).Grow(1'000'000)) << "another account";
    const HeldCharge moved = std::move(charge);
    EXPECT_EQ(account->bytes(), 100u);
  }
  EXPECT_EQ(account->bytes(), 0u);
  EXPECT_TRUE(HeldCharge().Grow(1'000'000)) << "of no account";
}

TEST(StateUploadTest, PiecesComeBackAsOneFileAndCountWhileTheyAreHere) {
  const QuotaPolicy quotas(Limited(5 << 20), kOwn, true);
  HeldBytes held(quotas);
  const auto account = held.AccountOf(kOther);
  {
    StateUpload upload{HeldCharge(account)};
    std::vector<std::byte> expected;
    for (int piece = 0; piece < 300; ++piece) {
      const std::size_t bytes = piece % 100 == 0 ? 1'200'000 : 7;
      std::vector<std::byte> sent(bytes, static_cast<std::byte>(piece));
      expected.insert(expected.end(), sent.begin(), sent.end());
      ASSERT_TRUE(upload.Append(std::move(sent)));
    }
    EXPECT_EQ(upload.byte_count(), expected.size());
    EXPECT_EQ(account->bytes(), expected.size());
    const Status refused = upload.Append(std::vector<std::byte>(2 << 20));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kNoSpace);
    EXPECT_EQ(upload.byte_count(), expected.size());
    const auto file = upload.Join(Uncontrolled());
    ASSERT_TRUE(file);
    EXPECT_EQ(*file, expected);
  }
  EXPECT_EQ(account->bytes(), 0u);
}

}  // namespace
}  // namespace kvd
