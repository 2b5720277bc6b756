// For each kind of thing that a request can name or list (http/answer/holdings.h): one tenant makes
// it, and another one tries to reach it.
#include "http/answer/holdings.h"

#include <gmock/gmock.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "base/text.h"
#include "http/api/routes.h"
#include "shm/wire_messages.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/api/support/route_fixture.h"

namespace kvd::http {
namespace {

using test::At;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kQuestion[] = R"("input":"Where is the kite?","max_output_tokens":2)";

class HoldingsTest : public test::RouteTest, public ::testing::WithParamInterface<Holding> {
 public:
  void SetUp() override {
    settings_.slot_count = 2;
    settings_.context_cells = 2048;
    settings_.serves_metrics = true;
    settings_.slot_directory = folder.path().string();
    settings_.model_path = "/models/private/one.gguf";
    gateway_.Watch(watch_);
    gateway_.Keep(std::move(*ResponseStore::Open((folder.path() / "responses").string())));
    AddRoutes(gateway_, router_);
    Start();
    alice.name = "alice";
    bob.name = "bob";
    olga.name = "olga";
    olga.is_operator = true;
    gateway_.UseRecords([this](const std::string& name) -> const TenantRecord* {
      for (const TenantRecord* const record : {&alice, &bob, &olga}) {
        if (record->name == name) return record;
      }
      return nullptr;
    });
  }

  // What `call` returns for a tenant.
  template <class Call>
  auto As(const std::string& tenant, const Call& call) {
    caller_ = tenant;
    return call();
  }
  GatewayReply PostAs(const std::string& tenant, const std::string& target, std::string body) {
    return As(tenant, [&] { return Post(target, std::move(body)); });
  }
  GatewayReply AskAs(const std::string& tenant, std::string_view method,
                     const std::string& target) {
    return As(tenant, [&] { return Ask(method, target); });
  }
  GatewayReply Complete(const std::string& tenant, const std::string& members = "") {
    return PostAs(
        tenant, "/completion",
        R"({"prompt":"The kite is in the shed behind the mill.","n_predict":2)" + members + "}");
  }
  std::string NewResponse(const std::string& tenant, const std::string& members = "") {
    const Value made =
        ValueOf(PostAs(tenant, "/v1/responses", Concat("{", kQuestion, members, "}")));
    return std::string(At(made, "id").view());
  }
  std::shared_ptr<DaemonSession> SessionOf(const std::string& tenant) {
    return *(*gateway_.Find(tenant, ""))->session();
  }
  // Publishes the cells of the tenant's slot 0.
  void Publish(const std::string& tenant, const std::string& name, std::uint16_t flags) {
    Complete(tenant, R"(,"id_slot":0)");
    TenantSession& owner = **gateway_.Find(tenant, "");
    const auto session = SessionOf(tenant);
    const auto fork = Run(session->Fork(owner.slots().at(0).sequence, -1));
    ASSERT_TRUE(fork);
    const auto published = Run(session->Publish(*fork, name, flags, {}));
    ASSERT_TRUE(published) << published.error().message;
  }
  // No route finds the response for this tenant.
  void ExpectNoResponse(const std::string& tenant, const std::string& id) {
    const std::string path = "/v1/responses/" + id;
    EXPECT_EQ(AskAs(tenant, "GET", path).status, 404);
    EXPECT_EQ(AskAs(tenant, "GET", path + "?stream=true").status, 404);
    EXPECT_EQ(AskAs(tenant, "GET", path + "/input_items").status, 404);
    EXPECT_EQ(AskAs(tenant, "POST", path + "/cancel").status, 404);
    EXPECT_EQ(AskAs(tenant, "DELETE", path).status, 404);
    EXPECT_EQ(PostAs(tenant, "/v1/responses",
                     Concat("{", kQuestion, R"(,"previous_response_id":")", id, "\"}"))
                  .status,
              404);
    EXPECT_EQ(
        PostAs(tenant, "/completion", Concat(R"({"prompt":"a","fork_from":")", id, "\"}")).status,
        404);
    EXPECT_EQ(PostAs(tenant, "/v1/chat/completions",
                     Concat(R"({"prompts":["a"],"fork_from":")", id, "\"}"))
                  .status,
              404);
  }

  void TrySlot() {
    Complete("alice", R"(,"id_slot":1)");
    const Value others = ValueOf(AskAs("bob", "GET", "/slots"));
    ASSERT_EQ(others.items().size(), 2u);
    for (const Value& slot : others.items()) EXPECT_FALSE(slot.dict().Contains("id_task"));
    const Value own = ValueOf(AskAs("alice", "GET", "/slots"));
    EXPECT_TRUE(own.items().at(1).dict().Contains("id_task"));
    EXPECT_EQ(Complete("alice", R"(,"id_slot":2)").status, 400) << "the limit";
  }
  void TrySlotFile() {
    const auto act = [&](const std::string& tenant, const std::string& action) {
      return PostAs(tenant, "/slots/0?action=" + action, R"({"filename":"one.bin"})");
    };
    Complete("alice", R"(,"id_slot":0)");
    const Value saved = ValueOf(act("alice", "save"));
    EXPECT_EQ(ErrorOf(act("bob", "restore")), "400 Unable to restore slot: one.bin: no such file");
    PostAs("bob", "/completion", R"({"prompt":"b","n_predict":1,"id_slot":0})");
    const Value own = ValueOf(act("bob", "save"));
    EXPECT_NE(At(own, "n_saved").integer(), At(saved, "n_saved").integer());
    EXPECT_EQ(At(ValueOf(act("alice", "restore")), "n_restored").integer(),
              At(saved, "n_saved").integer());
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "tenant-alice" / "one.bin"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "one.bin"));
    bob.slot_bytes = 100;
    EXPECT_THAT(ErrorOf(act("bob", "save")), HasSubstr("400 slot files: ")) << "the limit";
    EXPECT_EQ(At(ValueOf(act("bob", "restore")), "n_restored").integer(),
              At(own, "n_saved").integer())
        << "the earlier file is whole";
  }
  void TryStoredResponse() {
    const std::string id = NewResponse("alice");
    ExpectNoResponse("bob", id);
    EXPECT_EQ(AskAs("alice", "GET", "/v1/responses/" + id).status, 200);
  }
  void TrySnapshotOfResponse() {
    const std::string id = NewResponse("alice");
    EXPECT_EQ(Run(SessionOf("bob")->Attach(id)).error().code, Code::kNotFound);
    EXPECT_TRUE(Run(SessionOf("alice")->Attach(id)));
  }
  void TryStream() {
    headers_ = {{"X-Conversation-Id", "talk"}};
    const std::string body = Complete("alice", R"(,"stream":true)").body;
    headers_.clear();
    EXPECT_EQ(AskAs("bob", "GET", "/v1/stream?conv_id=talk").status, 404);
    EXPECT_EQ(ValueOf(PostAs("bob", "/v1/streams/lookup", R"({"conversation_ids":["talk"]})"))
                  .items()
                  .size(),
              0u);
    EXPECT_EQ(PostAs("bob", "/completion", R"({"prompt":"a","fork_from":"talk"})").status, 404);
    AskAs("bob", "DELETE", "/v1/stream?conv_id=talk");
    EXPECT_EQ(AskAs("alice", "GET", "/v1/stream?conv_id=talk").body, body);
  }
  void TryBackgroundResponse() {
    const std::string id = NewResponse("alice", R"(,"background":true)");
    ExpectNoResponse("bob", id);
    EXPECT_THAT(AskAs("alice", "GET", "/v1/responses/" + id + "?stream=true").body,
                HasSubstr("event: response.completed"));
  }
  void TrySnapshot() {
    Publish("alice", "tale", 0);
    const std::string body = R"({"prompt":" And","fork_from":"tale","n_predict":1})";
    EXPECT_EQ(PostAs("bob", "/completion", body).status, 404);
    EXPECT_EQ(PostAs("alice", "/completion", body).status, 200);
  }
  void TryPublicSnapshot() {
    Publish("alice", "song", wire::kFlagPublic);
    const std::string body = R"({"prompt":" And","fork_from":"song","n_predict":1})";
    EXPECT_EQ(PostAs("bob", "/completion", body).status, 200);
  }
  void TryPrefix() {
    Complete("alice");
    EXPECT_GT(At(ValueOf(Complete("alice")), "cache.reused").integer(), 0);
    EXPECT_EQ(At(ValueOf(Complete("bob")), "cache.reused").integer(), 0);
  }
  void TryModel() {
    bob.models = {"none of them"};
    EXPECT_EQ(At(ValueOf(AskAs("bob", "GET", "/v1/models")), "data").items().size(), 0u);
    EXPECT_EQ(Complete("bob", R"(,"model":"toy")").status, 404);
    EXPECT_EQ(AskAs("bob", "GET", "/props").status, 404);
  }
  void TryCounts() {
    Complete("alice");
    EXPECT_THAT(AskAs("bob", "GET", "/metrics").body,
                HasSubstr("\nllamacpp:tokens_predicted_total 0\n"));
    EXPECT_THAT(AskAs("alice", "GET", "/metrics").body,
                HasSubstr("\nllamacpp:tokens_predicted_total 2\n"));
    EXPECT_THAT(AskAs("olga", "GET", "/metrics").body,
                HasSubstr("\nllamacpp:tokens_predicted_total 2\n"));
  }
  void TryPoolCounts() {
    EXPECT_THAT(AskAs("bob", "GET", "/metrics").body, Not(HasSubstr("kvd:")));
    const std::string all = AskAs("olga", "GET", "/metrics").body;
    EXPECT_THAT(all, HasSubstr("kvd:pool_cells{"));
    EXPECT_THAT(all, HasSubstr("kvd:loop_long_turns_total "));
  }
  void TryPath() {
    EXPECT_EQ(At(ValueOf(AskAs("bob", "GET", "/props")), "model_path").view(), "one.gguf");
    EXPECT_EQ(At(ValueOf(AskAs("olga", "GET", "/props")), "model_path").view(),
              settings_.model_path);
  }

  kvd::test::TemporaryFolder folder;
  TenantRecord alice, bob, olga;
};

TEST_P(HoldingsTest, NoTenantReachesAnObjectOfAnother) {
  const std::map<std::string_view, void (HoldingsTest::*)()> attempts = {
      {"slot", &HoldingsTest::TrySlot},
      {"slot file", &HoldingsTest::TrySlotFile},
      {"stored response", &HoldingsTest::TryStoredResponse},
      {"snapshot of a response", &HoldingsTest::TrySnapshotOfResponse},
      {"stream", &HoldingsTest::TryStream},
      {"background response", &HoldingsTest::TryBackgroundResponse},
      {"snapshot", &HoldingsTest::TrySnapshot},
      {"public snapshot", &HoldingsTest::TryPublicSnapshot},
      {"prefix", &HoldingsTest::TryPrefix},
      {"model", &HoldingsTest::TryModel},
      {"counts of answers", &HoldingsTest::TryCounts},
      {"counts of the pool and of the event loop", &HoldingsTest::TryPoolCounts},
      {"path of the model's file", &HoldingsTest::TryPath}};
  const auto attempt = attempts.find(GetParam().kind);
  if (GetParam().visibility == Visibility::kNoCaller) {
    EXPECT_EQ(GetParam().named_by, "");
    EXPECT_EQ(attempt, attempts.end());
    return;
  }
  EXPECT_NE(GetParam().named_by, "");
  ASSERT_NE(attempt, attempts.end()) << "a row without a test of two tenants";
  (this->*attempt->second)();
}

std::string_view SeenBy(Visibility visibility) {
  switch (visibility) {
    case Visibility::kTenant: return "its tenant";
    case Visibility::kPublic: return "every tenant";
    case Visibility::kModels: return "tenants that may use the model";
    case Visibility::kOperator: return "an operator; every caller without `--tenants`";
    case Visibility::kNoCaller: return "no caller";
  }
  return "";
}

TEST(HoldingsPageTest, TheSecurityPageListsEveryObjectOfATenant) {
  std::ifstream file("docs/security.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Holding& row : kHoldings) {
    EXPECT_THAT(page, HasSubstr(Concat("\n| ", row.kind, " | ", row.named_by, " | ",
                                       SeenBy(row.visibility), " | ", row.limit, " |\n")));
  }
}

std::string RowName(const ::testing::TestParamInfo<Holding>& row) {
  std::string name(row.param.kind);
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
}
INSTANTIATE_TEST_SUITE_P(Rows, HoldingsTest, ::testing::ValuesIn(kHoldings), RowName);

}  // namespace
}  // namespace kvd::http
