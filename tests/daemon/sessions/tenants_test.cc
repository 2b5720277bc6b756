// Tests the tenants' file, the numbers of owners, and the limits and accounts of tenants.
#include "daemon/sessions/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/sessions/shares.h"

namespace kvd::tenants_test {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kUid = 1000;
constexpr const char* kFirstHex = "0b8f6a5e1c2d3e4f5a6b7c8d9e0f1a2b";
constexpr TenantId kFirst{0x0b, 0x8f, 0x6a, 0x5e, 0x1c, 0x2d, 0x3e, 0x4f,
                          0x5a, 0x6b, 0x7c, 0x8d, 0x9e, 0x0f, 0x1a, 0x2b};
constexpr TenantId kSecond{2};

TEST(OwnerTest, TheNumberOfATenantIsUniqueAndConstant) {
  EXPECT_EQ(OwnerOf(kUid, kTenantZero), OwnerOf(kUid));
  EXPECT_FALSE(IsTenant(OwnerOf(0xffff'ffffu)));
  const OwnerId first = OwnerOf(kUid, kFirst);
  EXPECT_TRUE(IsTenant(first));
  EXPECT_LE(static_cast<std::uint64_t>(first), kOwnerMax);
  EXPECT_EQ(UidOf(first, kUid), kUid);
  EXPECT_EQ(UidOf(OwnerOf(7), kUid), 7u);
  // Stored numbers must stay valid in later versions. The value was computed by an independent
  // implementation of SipHash-2-4 (docs/decisions/0033).
  EXPECT_EQ(OwnerText(first), "tenant=6b70c380d2008d99");
  EXPECT_EQ(OwnerText(OwnerOf(kUid)), "uid=1000");
  std::set<OwnerId> owners = {first, OwnerOf(kUid + 1, kFirst)};
  for (std::uint8_t byte = 0; byte < 16; ++byte) {
    TenantId changed = kFirst;
    changed[byte] ^= 1;
    owners.insert(OwnerOf(kUid, changed));
  }
  EXPECT_EQ(owners.size(), 18u);
}

TEST(TenantsTest, SectionsInheritTheDefaults) {
  const auto tenants = ParseTenants(
      std::string("# two tenants\n[default]\nrequests = 5\npool_share = 0.5\n\n[") + kFirstHex +
          "]\r\n name = alice \nweight = 3\nstate_slots=2\nsaved_bytes = 0\nconnections = 9\n"
          "sequences = 7\noutlive_seconds = 60\noutliving_sessions = 1\n"
          "[02000000000000000000000000000000]\nrequests = 6",
      UidLimits{.saved_bytes = 77});
  ASSERT_TRUE(tenants) << tenants.error().message;
  EXPECT_EQ(tenants->defaults.requests_in_flight, 5u);
  EXPECT_EQ(tenants->defaults.saved_bytes, 77u);
  ASSERT_EQ(tenants->by_id.size(), 2u);
  const Tenant& alice = tenants->by_id.at(kFirst);
  EXPECT_EQ(alice.name, "alice");
  EXPECT_EQ(alice.limits.requests_in_flight, 5u);
  EXPECT_EQ(alice.limits.pool_share, 0.5);
  EXPECT_EQ(alice.limits.weight, 3u);
  EXPECT_EQ(alice.limits.state_slots, 2u);
  EXPECT_EQ(alice.limits.saved_bytes, 0u);
  EXPECT_EQ(alice.limits.connections, 9u);
  EXPECT_EQ(alice.limits.sequences, 7u);
  EXPECT_EQ(alice.limits.outlive_seconds, 60u);
  EXPECT_EQ(alice.limits.outliving_sessions, 1u);
  EXPECT_EQ(tenants->by_id.at(kSecond).limits.requests_in_flight, 6u);
}

TEST(TenantsTest, EachBadLineIsNamed) {
  const std::string section = std::string("[") + kFirstHex + "]\n";
  const std::vector<std::pair<std::string, const char*>> bad = {
      {"requests = 1", "line 1: a setting before any section"},
      {"[default", "line 1: the section has no ']'"},
      {"[alice]", "line 1: tenant: 'alice' is not 32 hexadecimal digits"},
      {"[0b8f6a5e1c2d3e4f5a6b7c8d9e0f1a2g]", "is not 32 hexadecimal digits"},
      {"[00000000000000000000000000000000]", "line 1: tenant 0 has no section"},
      {section + "[default]", "line 2: [default] must be the first section"},
      {"[default]\n[default]", "line 2: [default] must be the first section"},
      {section + "requests = 1\n" + section, "line 3: the tenant has a section already"},
      {section + "\nrequests 1", "line 3: \"requests 1\" is not a section"},
      {section + "speed = 1", "line 2: \"speed\" is not a setting"},
      {section + "requests = 1\nrequests = 1", "line 3: \"requests\" is set twice"},
      {section + "requests = 0", "line 2: requests: \"0\" is not a number from 1 to 1048576"},
      {section + "requests = 1x", "requests: \"1x\" is not a number"},
      {section + "requests = ", "requests: \"\" is not a number"},
      {section + "pool_share = 1.5", "pool_share: \"1.5\" is not a number from 0"},
      {section + "pool_share = nan", "pool_share: \"nan\" is not a number from 0"},
      {section + "state_slots = 0", "state_slots: \"0\""},
      {section + "saved_bytes = -1", "saved_bytes: \"-1\""},
      {section + "connections = 65537", "connections: \"65537\""},
      {section + "sequences = 0", "sequences: \"0\""},
      {section + "weight = 1001", "weight: \"1001\" is not a number from 1 to 1000"},
      {section + "outlive_seconds = 604801", "outlive_seconds: \"604801\""},
      {section + "outliving_sessions = 1025", "outliving_sessions: \"1025\""},
      {"[default]\nname = a", "line 2: name: [default] has no name"},
      {section + "name = a b", "line 2: name: \"a b\" is not 1 to 63 letters"},
      {section + "name = a\n[02000000000000000000000000000000]\nname = a",
       "line 4: name: a is another tenant's name"},
  };
  for (const auto& [text, sentence] : bad) {
    const auto tenants = ParseTenants(text, {});
    ASSERT_FALSE(tenants) << text;
    EXPECT_EQ(tenants.error().code, Code::kInvalidArgument);
    EXPECT_THAT(tenants.error().message, HasSubstr(sentence)) << text;
  }
}

TEST(TenantsTest, TheNumberOfTenantsAndTheSizeOfTheFileAreLimited) {
  std::string text;
  char line[64];
  for (std::size_t number = 1; number <= kTenantsMax; ++number) {
    std::snprintf(line, sizeof line, "[%032zx]\n", number);
    text += line;
  }
  EXPECT_TRUE(ParseTenants(text, {}));
  const auto more = ParseTenants(text + "[" + kFirstHex + "]", {});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kNoSpace);
  EXPECT_THAT(more.error().message, HasSubstr("more than 4096 tenants"));

  const std::string path = testing::TempDir() + "kvd_tenants_test";
  std::ofstream(path) << std::string(kTenantsFileBytesMax + 1, '\n');
  EXPECT_EQ(ReadTenants(path, {}).error().code, Code::kNoSpace);
  std::ofstream(path) << "[default]\nrequests = 0\n";
  EXPECT_THAT(ReadTenants(path, {}).error().message, HasSubstr(path + ": line 2: requests"));
  std::ofstream(path) << "[default]\nrequests = 3\n";
  EXPECT_EQ(ReadTenants(path, {})->defaults.requests_in_flight, 3u);
  std::filesystem::remove(path);
  EXPECT_EQ(ReadTenants(path, {}).error().code, Code::kIo);
}

TEST(TenantSharesTest, OnlyTheTenantsUidNamesTenants) {
  Shares shares({}, OwnerOf(0), true, kUid);
  const auto refused = shares.AdmitTenant(0, kFirst);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kPermission);
  EXPECT_THAT(refused.error().message, HasSubstr("only uid 1000 may"));
  const auto account = shares.AdmitTenant(kUid, kFirst);
  ASSERT_TRUE(account) << account.error().message;
  EXPECT_EQ((*account)->owner(), OwnerOf(kUid, kFirst));
  EXPECT_EQ((*shares.AdmitTenant(0, kTenantZero))->owner(), OwnerOf(0));
  EXPECT_EQ(shares.UidOf((*account)->owner()), kUid);
  EXPECT_TRUE(shares.MayListTenants(OwnerOf(0)));
  EXPECT_TRUE(shares.MayListTenants(OwnerOf(kUid)));
  EXPECT_FALSE(shares.MayListTenants(OwnerOf(kUid, kFirst)));
  EXPECT_EQ(Shares({}, OwnerOf(7), false).tenant_uid(), 7u) << "the daemon's own by default";
}

TEST(TenantSharesTest, NewLimitsApplyToConnectedTenantsAndRevokeNothing) {
  Shares shares({}, OwnerOf(kUid), true);
  const auto first = *shares.AdmitTenant(kUid, kFirst);
  const auto second = *shares.AdmitTenant(kUid, kSecond);
  EXPECT_EQ(first->limit(Resource::kRequests), 256u) << "those of another uid";
  Share held(first, Resource::kRequests);
  ASSERT_TRUE(held.Grow(10));
  shares.SetTenants(*ParseTenants(std::string("[default]\nrequests = 20\n[") + kFirstHex +
                                      "]\nrequests = 4\nweight = 9\nsequences = 3\n"
                                      "state_slots = 2\npool_share = 0.5\nname = alice",
                                  shares.other_limits()));
  EXPECT_EQ(first->limit(Resource::kRequests), 4u);
  EXPECT_EQ(first->held(Resource::kRequests), 10u);
  EXPECT_EQ(first->weight(), 9u);
  EXPECT_EQ(second->limit(Resource::kRequests), 20u);
  EXPECT_EQ(second->weight(), 1u);
  EXPECT_EQ(held.Grow(1).error().code, Code::kNoSpace);
  MemoryGeometry geometry{};
  geometry.meta.group_count = 1;
  geometry.meta.block_count[0] = 100;
  geometry.meta.state_slot_count = 40;
  const OwnerLimits limits = shares.LimitsOf(first->owner(), geometry);
  EXPECT_EQ(limits.blocks[0], 50u);
  EXPECT_EQ(limits.state_slots, 2u);
  EXPECT_EQ(limits.sequences, 3u);
  EXPECT_FALSE(limits.counts_all);
  EXPECT_EQ(shares.LimitsOf(second->owner(), geometry).state_slots, 10u);
  // The tenants' uid is limited only by the pool.
  EXPECT_TRUE(shares.LimitsOf(OwnerOf(kUid), geometry).counts_all);

  const auto listed = shares.ListTenants();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].tenant.id, kSecond);
  EXPECT_EQ(listed[0].tenant.name, "");
  EXPECT_EQ(listed[1].tenant.name, "alice");
  EXPECT_EQ(listed[1].account->held(Resource::kRequests), 10u);
}

}  // namespace
}  // namespace kvd::tenants_test
