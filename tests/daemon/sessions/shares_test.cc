// Tests the quotas of owners: a share that is taken counts until it is given back.
#include "daemon/sessions/shares.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/stores/load_states.h"

namespace kvd::shares_test {
namespace {

constexpr OwnerId kOwn = OwnerOf(0u);
constexpr OwnerId kOther = OwnerOf(1000u);
constexpr OwnerId kThird = OwnerOf(1001u);

constexpr std::array kAll = {
    Resource::kConnections,      Resource::kRequests,           Resource::kRequestArenaBytes,
    Resource::kResultArenaBytes, Resource::kHeldBytes,          Resource::kSavedBytes,
    Resource::kPromptCacheBytes, Resource::kPromptCacheEntries, Resource::kOutlivingSessions};
static_assert(kAll.size() == kResourceCount);

Quotas Limited(std::uint64_t held_bytes) {
  Quotas quotas;
  quotas.others.held_bytes = held_bytes;
  return quotas;
}

class EachResourceTest : public testing::TestWithParam<Resource> {};

TEST_P(EachResourceTest, AnotherOwnerIsRefusedAtItsLimitAndTheOwnUidIsNot) {
  Shares shares({}, kOwn, true);
  const Resource resource = GetParam();
  const std::uint64_t limit = shares.LimitOf(kOther, resource);
  ASSERT_GT(limit, 0u);
  ASSERT_GT(shares.LimitOf(kOwn, resource), limit);
  const Result<Share> most = shares.Take(kOther, resource, limit);
  ASSERT_TRUE(most) << most.error().message;
  const Result<Share> one_more = shares.Take(kOther, resource, 1);
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, Code::kNoSpace);
  const std::string numbers =
      "1 more wanted, owner 1000 holds " + std::to_string(limit) + " of " + std::to_string(limit);
  EXPECT_NE(one_more.error().message.find(numbers), std::string::npos) << one_more.error().message;
  EXPECT_EQ(shares.AccountOf(kOther)->held(resource), limit) << "what is refused is not counted";
  EXPECT_TRUE(shares.Take(kOwn, resource, limit + 1));
  EXPECT_TRUE(shares.Take(kThird, resource, limit));
  for (const Resource beside : kAll) {
    if (beside == resource) continue;
    EXPECT_TRUE(shares.Take(kOther, beside, 1)) << "another resource";
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachResourceTest, testing::ValuesIn(kAll));

TEST(SharesTest, RefusalsNameTheResource) {
  Shares shares(Limited(50), kOwn, true);
  const Result<Share> held = shares.Take(kOther, Resource::kHeldBytes, 20);
  EXPECT_EQ(shares.Take(kOther, Resource::kHeldBytes, 31).error().message,
            "held bytes: 31 more wanted, owner 1000 holds 20 of 50");
  const auto message = [&](Resource resource) {
    return shares.Take(kOther, resource, kNoLimit).error().message;
  };
  EXPECT_TRUE(message(Resource::kConnections).starts_with("connections: "));
  EXPECT_TRUE(message(Resource::kRequests).starts_with("requests in flight: "));
  EXPECT_TRUE(message(Resource::kRequestArenaBytes).starts_with("request arena bytes: "));
  EXPECT_TRUE(message(Resource::kResultArenaBytes).starts_with("result arena bytes: "));
  EXPECT_TRUE(message(Resource::kSavedBytes).starts_with("saved bytes: "));
  EXPECT_TRUE(message(Resource::kPromptCacheBytes).starts_with("prompt cache bytes: "));
  EXPECT_TRUE(message(Resource::kPromptCacheEntries).starts_with("prompt cache entries: "));
}

TEST(SharesTest, LimitsComeFromTheQuotas) {
  const Shares shares({}, kOwn, true);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kConnections), 256u);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kConnections), 8u);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kRequests), 16'384u);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kRequests), 256u);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kRequestArenaBytes), 4ull << 30);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kRequestArenaBytes), 64ull << 20);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kResultArenaBytes), 4ull << 30);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kResultArenaBytes), 64ull << 20);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kHeldBytes), 4ull << 30);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kHeldBytes), 256ull << 20);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kSavedBytes), kNoLimit);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kSavedBytes), 4ull << 30);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kPromptCacheBytes), 1ull << 30);
  EXPECT_EQ(shares.LimitOf(kOther, Resource::kPromptCacheEntries), 4096u);
  EXPECT_EQ(shares.LimitOf(kOwn, Resource::kPromptCacheEntries), 15'564u) << "95 %";
  EXPECT_EQ(Shares({}, kOwn, false).LimitOf(kOwn, Resource::kPromptCacheEntries), 16'384u);
}

TEST(SharesTest, AShareCountsUntilItIsDestroyed) {
  Shares shares(Limited(100), kOwn, true);
  const auto account = shares.AccountOf(kOther);
  EXPECT_EQ(account->owner(), kOther);
  EXPECT_EQ(shares.AccountOf(kOther), account) << "one account of each owner";
  {
    Share share(account, Resource::kHeldBytes);
    EXPECT_TRUE(share.is_limited());
    EXPECT_TRUE(share.Grow(60));
    EXPECT_TRUE(share.Grow(0));
    Share other(account, Resource::kHeldBytes);
    EXPECT_FALSE(other.Grow(41));
    EXPECT_EQ(other.amount(), 0u);
    EXPECT_TRUE(other.Grow(40));
    EXPECT_EQ(account->held(Resource::kHeldBytes), 100u);
    other.Shrink(15);
    EXPECT_EQ(other.amount(), 25u);
    EXPECT_EQ(account->held(Resource::kHeldBytes), 85u);
    EXPECT_FALSE(other.Grow(16));
    EXPECT_TRUE(other.Grow(15));
  }
  EXPECT_EQ(account->held(Resource::kHeldBytes), 0u);
}

TEST(SharesTest, AMovedFromShareCountsNothing) {
  Shares shares(Limited(100), kOwn, true);
  const auto account = shares.AccountOf(kOther);
  Share first = *shares.Take(kOther, Resource::kHeldBytes, 60);
  Share second = std::move(first);
  EXPECT_EQ(first.amount(), 0u);  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(first.is_limited());
  EXPECT_TRUE(first.Grow(1'000)) << "of no account";
  first.Shrink(1'000);
  EXPECT_EQ(second.amount(), 60u);
  EXPECT_EQ(account->held(Resource::kHeldBytes), 60u);
  Share third = *shares.Take(kOther, Resource::kHeldBytes, 40);
  third = std::move(second);
  EXPECT_EQ(third.amount(), 60u);
  EXPECT_EQ(account->held(Resource::kHeldBytes), 60u) << "what it had before is given back";
  third = Share();
  EXPECT_EQ(account->held(Resource::kHeldBytes), 0u);
}

TEST(SharesTest, WithoutALimitOrAnAccountNothingIsRefused) {
  Shares shares({}, kOwn, true);
  Share saved = *shares.Take(kOwn, Resource::kSavedBytes, 1ull << 60);
  EXPECT_FALSE(saved.is_limited());
  EXPECT_TRUE(saved.Grow(1ull << 60, 1ull << 60));
  Share none(nullptr, Resource::kHeldBytes);
  EXPECT_FALSE(none.is_limited());
  EXPECT_TRUE(none.Grow(kNoLimit));
  EXPECT_EQ(none.amount(), kNoLimit);
}

TEST(SharesTest, AmountsCountedElsewhereReduceTheLimit) {
  Shares shares(Limited(100), kOwn, true);
  const auto account = shares.AccountOf(kOther);
  Share share(account, Resource::kHeldBytes);
  EXPECT_TRUE(share.Grow(30, 70));
  EXPECT_EQ(share.Grow(1, 70).error().message,
            "held bytes: 1 more wanted, owner 1000 holds 100 of 100");
  EXPECT_TRUE(share.Grow(5, 65));
  EXPECT_FALSE(share.Grow(0, 101)) << "more than the limit by itself";
  EXPECT_EQ(account->held(Resource::kHeldBytes), 35u);
}

TEST(SharesTest, AnAccountLivesAsLongAsItsShares) {
  std::optional<Shares> shares(std::in_place, Limited(100), kOwn, true);
  {
    const Result<Share> share = shares->Take(kOther, Resource::kHeldBytes, 60);
    EXPECT_FALSE(shares->Take(kOther, Resource::kHeldBytes, 41)) << "the same account";
    EXPECT_EQ(shares->ListHeld(Resource::kHeldBytes),
              (std::map<OwnerId, std::uint64_t>{{kOther, 60}}));
    EXPECT_TRUE(shares->ListHeld(Resource::kConnections).empty());
  }
  EXPECT_TRUE(shares->ListHeld(Resource::kHeldBytes).empty());
  EXPECT_TRUE(shares->Take(kOther, Resource::kHeldBytes, 100));
  Share late = *shares->Take(kOther, Resource::kHeldBytes, 100);
  shares.reset();
  EXPECT_FALSE(late.Grow(1)) << "it outlives the shares";
}

TEST(SharesTest, ThreadsOfTwoOwnersStayWithinTheirLimits) {
  constexpr std::uint64_t kLimit = 7;
  constexpr int kRounds = 20'000;
  Shares shares(Limited(kLimit), kOwn, true);
  std::atomic<std::uint64_t> held = 0;  // the sum of kOther's shares, counted by its threads
  std::atomic<std::uint64_t> refused = 0;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      const OwnerId owner = thread == 3 ? kThird : kOther;
      threads.emplace_back([&, owner, thread] {
        const auto account = shares.AccountOf(owner);
        for (int round = 0; round < kRounds; ++round) {
          Share share(account, Resource::kHeldBytes);
          const std::uint64_t amount = 1 + (thread + static_cast<std::uint64_t>(round)) % 4;
          if (!share.Grow(amount)) {
            ASSERT_EQ(owner, kOther) << "the third is alone";
            ++refused;
            continue;
          }
          if (owner != kOther) continue;
          ASSERT_LE(held.fetch_add(amount) + amount, kLimit);
          held.fetch_sub(amount);
        }
      });
    }
  }
  EXPECT_TRUE(shares.ListHeld(Resource::kHeldBytes).empty());
  EXPECT_TRUE(shares.Take(kOther, Resource::kHeldBytes, kLimit));
}

// --------------------------------------------------------------------------------- of the memory

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

TEST(SharesTest, OtherUidsMayUseAQuarterOfEachResourceOfTheMemory) {
  const OwnerLimits limits = Shares({}, kOwn, true).LimitsOf(kOther, SomeGeometry());
  EXPECT_EQ(limits.sequences, 64u);
  EXPECT_EQ(limits.blocks[0], 25u);
  EXPECT_EQ(limits.blocks[1], 10u);
  EXPECT_EQ(limits.state_slots, 4u);
  EXPECT_EQ(limits.checkpoint_slots, 2u);
  EXPECT_EQ(limits.list_units, 250u);
  EXPECT_EQ(limits.logits_rows, 1u) << "one at least";
  EXPECT_FALSE(limits.counts_all);
}

TEST(SharesTest, TheOwnUidLeavesAReserveOnlyIfOthersMayConnect) {
  const OwnerLimits limits = Shares({}, kOwn, true).LimitsOf(kOwn, SomeGeometry());
  EXPECT_EQ(limits.blocks[0], 95u);
  EXPECT_EQ(limits.state_slots, 15u);
  EXPECT_TRUE(limits.counts_all);
  const OwnerLimits alone = Shares({}, kOwn, false).LimitsOf(kOwn, SomeGeometry());
  EXPECT_EQ(alone.blocks[0], OwnerLimits{}.blocks[0]);
  EXPECT_EQ(alone.state_slots, OwnerLimits{}.state_slots);
}

// ------------------------------------------------------------------------------------- uploads

TEST(StateUploadTest, UploadedPiecesFormOneFileAndCountWhileHeld) {
  Shares shares(Limited(5 << 20), kOwn, true);
  const auto account = shares.AccountOf(kOther);
  {
    StateUpload upload{Share(account, Resource::kHeldBytes)};
    std::vector<std::byte> expected;
    for (int piece = 0; piece < 300; ++piece) {
      const std::size_t bytes = piece % 100 == 0 ? 1'200'000 : 7;
      std::vector<std::byte> sent(bytes, static_cast<std::byte>(piece));
      expected.insert(expected.end(), sent.begin(), sent.end());
      ASSERT_TRUE(upload.Append(std::move(sent)));
    }
    EXPECT_EQ(upload.byte_count(), expected.size());
    EXPECT_EQ(account->held(Resource::kHeldBytes), expected.size());
    const Status refused = upload.Append(std::vector<std::byte>(2 << 20));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kNoSpace);
    EXPECT_EQ(upload.byte_count(), expected.size());
    const auto file = upload.Join(Uncontrolled());
    ASSERT_TRUE(file);
    EXPECT_EQ(*file, expected);
  }
  EXPECT_EQ(account->held(Resource::kHeldBytes), 0u);
}

}  // namespace
}  // namespace kvd::shares_test
