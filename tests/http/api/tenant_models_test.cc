// What a tenant sees of the models: routes with a real daemon that is served under two names.
#include <gmock/gmock.h>

#include "http/api/llama_completion.h"
#include "http/api/routes.h"
#include "tests/http/api/support/route_fixture.h"

namespace kvd::http {
namespace {

using test::At;
using ::testing::HasSubstr;
using ::testing::Not;

class TenantModelsTest : public test::RouteTest {
 protected:
  void SetUp() override {
    settings_.serves_metrics = true;
    AddModelRoutes(gateway_, router_);
    AddPropsRoutes(gateway_, router_);
    AddSlotRoutes(gateway_, router_);
    AddMetricsRoutes(gateway_, router_);
    AddTokenizeRoutes(gateway_, router_);
    AddLlamaCompletionRoutes(gateway_, router_);
    Start();
    ServeAs({"second"});
    alice_.name = "alice";
    alice_.models = {"second"};
    bob_.name = "bob";
    alice_.is_operator = bob_.is_operator = true;
    carol_.name = "carol";
    carol_.models = {"none of them"};
    gateway_.UseRecords([this](const std::string& name) -> const TenantRecord* {
      for (const TenantRecord* const record : {&alice_, &bob_, &carol_}) {
        if (record->name == name) return record;
      }
      return nullptr;
    });
  }

  TenantRecord alice_, bob_, carol_;
};

TEST_F(TenantModelsTest, ATenantSeesOnlyItsModels) {
  caller_ = "alice";
  const Value models = ValueOf(Get("/v1/models"));
  ASSERT_EQ(At(models, "data").items().size(), 1u);
  EXPECT_EQ(At(At(models, "data").items()[0], "id").view(), "second");
  EXPECT_EQ(At(models, "models").items().size(), 1u);
  EXPECT_EQ(Get("/v1/models/second").status, 200);
  EXPECT_EQ(At(ValueOf(Get("/props")), "model_alias").view(), "second");
  EXPECT_EQ(Get("/slots").status, 200);
  const std::string metrics = Get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("model=\"second\""));
  EXPECT_THAT(metrics, Not(HasSubstr("model=\"toy\"")));
  caller_ = "bob";
  EXPECT_EQ(At(ValueOf(Get("/v1/models")), "data").items().size(), 2u);
  EXPECT_THAT(Get("/metrics").body, HasSubstr("model=\"toy\""));
}

TEST_F(TenantModelsTest, AModelOfAnotherTenantIsUnknown) {
  caller_ = "alice";
  const auto error_for = [this](const std::string& model) {
    return ErrorOf(Post("/completion", R"({"prompt":"a","n_predict":1,"model":")" + model + "\"}"));
  };
  const std::string rest = "\"; there are: second";
  EXPECT_EQ(error_for("toy"), "404 model: no model is named \"toy" + rest);
  EXPECT_EQ(error_for("missing"), "404 model: no model is named \"missing" + rest);
  EXPECT_EQ(error_for("second"), "200");
  EXPECT_EQ(ErrorOf(Get("/v1/models/toy")), "404 model: no model is named \"toy\"");
  EXPECT_EQ(Get("/props?model=toy").status, 404);
  EXPECT_EQ(Get("/slots?model=toy").status, 404);
  EXPECT_EQ(Post("/tokenize", R"({"content":"a","model":"org/other"})").status, 404);
  EXPECT_EQ(Post("/tokenize", R"({"content":"a"})").status, 200);
}

TEST_F(TenantModelsTest, ATenantWithoutAModelSeesNone) {
  for (const char* const name : {"carol", "unknown"}) {
    caller_ = name;
    EXPECT_TRUE(At(ValueOf(Get("/v1/models")), "data").items().empty()) << name;
    EXPECT_EQ(ErrorOf(Get("/props")), "404 model: no model is named \"\"; there are: none");
  }
}

TEST_F(TenantModelsTest, TheSnapshotLimitOfATenantOverridesTheFlag) {
  settings_.response_bytes = 7;
  alice_.response_bytes = 5;
  EXPECT_EQ(gateway_.ResponseBytesOf("alice"), 5u);
  EXPECT_EQ(gateway_.ResponseBytesOf("bob"), 7u);
}

}  // namespace
}  // namespace kvd::http
