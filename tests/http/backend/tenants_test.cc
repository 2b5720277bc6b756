#include "http/backend/tenants.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/e2e/support/temporary_folder.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// SHA-256 of "test".
constexpr const char* kHash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

std::string WithTenant(const std::string& members) {
  return R"({"tenants": [{"name": "alice", "key_sha256": ")" + std::string(kHash) + "\"" + members +
         "}]}";
}

std::string Refusal(const std::string& text) {
  const auto table = TenantTable::Parse(text);
  EXPECT_FALSE(table) << text;
  return table ? "" : table.error().message;
}

TEST(TenantsTest, FindsTheTenantOfAKey) {
  const auto table = TenantTable::Parse(WithTenant(""));
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_NE(table->FindKey("test"), nullptr);
  EXPECT_EQ(table->FindKey("test")->name, "alice");
  EXPECT_EQ(table->FindKey("Test"), nullptr);
  EXPECT_EQ(table->FindKey(""), nullptr);
  EXPECT_EQ(table->FindName("alice"), table->FindKey("test"));
  EXPECT_EQ(table->FindName("bob"), nullptr);
}

TEST(TenantsTest, TheIdForTheDaemonDependsOnlyOnTheName) {
  const auto table = TenantTable::Parse(WithTenant(""));
  const auto other = TenantTable::Parse(WithTenant(R"(, "salt": "x")"));
  ASSERT_TRUE(table && other);
  EXPECT_EQ(table->tenants()[0].id, other->tenants()[0].id);
  EXPECT_NE(table->tenants()[0].id, (std::array<std::uint8_t, 16>{}));
  EXPECT_EQ(table->tenants()[0].cache_salt, 0u);
  EXPECT_NE(other->tenants()[0].cache_salt, 0u);
}

TEST(TenantsTest, RestrictsTheModels) {
  const auto table = TenantTable::Parse(WithTenant(R"(, "models": ["chat", "embedder"])"));
  ASSERT_TRUE(table) << table.error().message;
  const TenantRecord& tenant = table->tenants()[0];
  EXPECT_TRUE(tenant.MayUse({"other", "embedder"}));
  EXPECT_FALSE(tenant.MayUse({"other"}));
  EXPECT_TRUE(TenantRecord{}.MayUse({"other"}));
}

TEST(TenantsTest, WritesTheTenantsFileOfTheDaemon) {
  const auto table = TenantTable::Parse(
      R"({"default": {"requests": 64}, "tenants": [{"name": "alice", "key_sha256": ")" +
      std::string(kHash) + R"(", "limits": {"pool_share": 0.25, "weight": 2}}]})");
  ASSERT_TRUE(table) << table.error().message;
  const std::string text = table->LimitsText();
  EXPECT_TRUE(text.starts_with("[default]\npool_share = 0.5\nrequests = 64\n[")) << text;
  EXPECT_TRUE(text.ends_with("]\nname = alice\npool_share = 0.250000\nweight = 2\n")) << text;
}

TEST(TenantsTest, TheBytesOfResponsesAreALimitOfTheGateway) {
  const auto table =
      TenantTable::Parse(R"({"default": {"response_bytes": 100}, "tenants": [)"
                         R"({"name": "alice", "key_sha256": ")" +
                         std::string(kHash) + R"(", "limits": {"response_bytes": 5}}]})");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->tenants()[0].response_bytes, 5u);
  EXPECT_EQ(table->LimitsText().find("response_bytes"), std::string::npos);
  const auto by_default = TenantTable::Parse(R"({"default": {"response_bytes": 100}, "tenants": [)"
                                             R"({"name": "alice", "key_sha256": ")" +
                                             std::string(kHash) + "\"}]}");
  EXPECT_EQ(by_default->tenants()[0].response_bytes, 100u);
  const auto none = TenantTable::Parse(WithTenant(""));
  EXPECT_EQ(none->tenants()[0].response_bytes, std::nullopt);
  EXPECT_EQ(
      Refusal(WithTenant(R"(, "limits": {"response_bytes": -1})")),
      "tenants[0].limits.response_bytes: a whole number from 0 to 1125899906842624 is needed");
}

TEST(TenantsTest, SessionsOutliveTheGatewayAsLongAsTheLimitsAllow) {
  const auto seconds = [](const std::string& defaults, const std::string& limits) {
    const std::string tenant = R"({"name": "alice", "limits": {)" + limits +
                               R"(}, "key_sha256": ")" + std::string(kHash) + "\"}";
    const auto table =
        TenantTable::Parse("{\"tenants\": [" + tenant + "], \"default\": {" + defaults + "}}");
    EXPECT_TRUE(table) << table.error().message;
    return table ? table->tenants()[0].outlive_seconds : 0;
  };
  EXPECT_EQ(seconds("", ""), kOutliveSeconds);
  EXPECT_EQ(seconds(R"("outlive_seconds": 60)", ""), 60u);
  EXPECT_EQ(seconds(R"("outlive_seconds": 60)", R"("outlive_seconds": 7)"), 7u);
  EXPECT_EQ(seconds("", R"("outlive_seconds": 100000)"), kOutliveSeconds);
}

TEST(TenantsTest, NamesTheWrongField) {
  EXPECT_EQ(Refusal("[]"), "the file: an object is needed");
  EXPECT_EQ(Refusal("{}"), "tenants: a list is needed");
  EXPECT_EQ(Refusal(R"({"tenant": []})"), "tenant: there is no such member");
  EXPECT_EQ(Refusal(R"({"tenants": [1]})"), "tenants[0]: an object is needed");
  EXPECT_EQ(Refusal(R"({"tenants": [{}]})"), "tenants[0].name: is missing");
  EXPECT_EQ(Refusal(R"({"tenants": [{"name": "a"}]})"), "tenants[0].key_sha256: is missing");
  EXPECT_EQ(Refusal(R"({"tenants": [{"name": "a", "key_sha256": []}]})"),
            "tenants[0].key_sha256: a key is needed");
  EXPECT_EQ(Refusal(R"({"tenants": [{"name": "a b"}]})"),
            "tenants[0].name: 1 to 63 letters, digits, '_', '-' or '.' are needed");
  EXPECT_EQ(Refusal(R"({"tenants": [{"key_sha256": "12"}]})"),
            "tenants[0].key_sha256: 64 hexadecimal digits are needed, the SHA-256 of the key");
  EXPECT_EQ(Refusal(WithTenant(R"(, "colour": 1)")), "tenants[0].colour: there is no such member");
  EXPECT_EQ(Refusal(WithTenant(R"(, "models": [])")), "tenants[0].models: the list is empty");
  EXPECT_EQ(Refusal(WithTenant(R"(, "models": [1])")), "tenants[0].models[0]: a text is needed");
  EXPECT_EQ(Refusal(WithTenant(R"(, "salt": 7)")), "tenants[0].salt: a text is needed");
  EXPECT_EQ(Refusal(WithTenant(R"(, "limits": {"speed": 1})")),
            "tenants[0].limits.speed: there is no such limit");
  EXPECT_EQ(Refusal(WithTenant(R"(, "limits": {"weight": 0})")),
            "tenants[0].limits.weight: a whole number from 1 to 1000 is needed");
  EXPECT_EQ(Refusal(WithTenant(R"(, "limits": {"weight": true})")),
            "tenants[0].limits.weight: a whole number from 1 to 1000 is needed");
  EXPECT_EQ(Refusal(WithTenant(R"(, "limits": {"pool_share": 1.5})")),
            "tenants[0].limits.pool_share: a number from 0 to 1 is needed");
  EXPECT_EQ(Refusal(R"({"default": 1, "tenants": []})"), "default: an object is needed");
}

TEST(TenantsTest, RefusesTwoTenantsWithOneNameOrKey) {
  const std::string record = R"({"name": "alice", "key_sha256": ")" + std::string(kHash) + R"("})";
  const std::string renamed = R"({"name": "bob", "key_sha256": ")" + std::string(kHash) + R"("})";
  EXPECT_EQ(Refusal("{\"tenants\": [" + record + "," + record + "]}"),
            "tenants[1].name: \"alice\" occurs twice");
  EXPECT_EQ(Refusal("{\"tenants\": [" + record + "," + renamed + "]}"),
            "tenants: a key occurs twice");
}

TEST(TenantsTest, NamesTheFile) {
  const kvd::test::TemporaryFolder folder;
  const std::string path = folder.path() / "tenants";
  EXPECT_TRUE(TenantTable::Read(path).error().message.starts_with(path + ": "));
  std::ofstream(path) << "{";
  const auto table = TenantTable::Read(path);
  ASSERT_FALSE(table);
  EXPECT_TRUE(table.error().message.starts_with(path + ": "));
}

TEST(TenantsTest, AGeneratedKeyMatchesItsRecord) {
  const auto made = MakeKey("alice");
  ASSERT_TRUE(made);
  const auto table = TenantTable::Parse("{\"tenants\": [" + made->record + "]}");
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_NE(table->FindKey(made->key), nullptr);
  EXPECT_NE(MakeKey("alice")->key, made->key);
  EXPECT_FALSE(MakeKey("a b"));
}

}  // namespace
}  // namespace kvd::http
