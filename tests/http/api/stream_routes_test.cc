// Tests the routes of streams that outlive their clients.
#include "http/api/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/http/api/support/route_fixture.h"
#include "tests/http/value_at.h"
#include "text/value.h"

namespace kvd::http::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Await<void> SayHello(Responder& responder) {
  GatewayReply head{.body = {}, .content_type = std::string(kEventStreamType)};
  co_await responder.Begin(std::move(head));
  co_await responder.Write("hello");
  co_await responder.End();
}

class StreamRoutesTest : public RouteTest {
 protected:
  void SetUp() override {
    jobs_->AddHandler("POST", "/hello",
                      [](const Request&, const std::vector<std::string>&, Responder& responder) {
                        return SayHello(responder);
                      });
    AddStreamRoutes(gateway_, router_);
  }
  void Say(const std::string& id) {
    Request request;
    request.method = "POST";
    ASSERT_TRUE(jobs_->Start(id, "/hello", request));
    loop_.restart();
    loop_.poll();
  }
  std::string LookUp(const std::string& ids) {
    return ErrorOf(Post("/v1/streams/lookup", "{\"conversation_ids\":" + ids + "}"));
  }
};

std::string IdList(std::size_t count) {
  std::string ids = "[";
  for (std::size_t i = 0; i < count; ++i) ids += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
  return ids + "]";
}

TEST_F(StreamRoutesTest, AtMostAThousandIdsAreLookedUp) {
  EXPECT_EQ(LookUp(IdList(1000)), "200");
  EXPECT_EQ(LookUp(IdList(1001)), "400 conversation_ids: 1001 ids, at most 1000");
}

TEST_F(StreamRoutesTest, ALookupNamesTheWrongField) {
  EXPECT_THAT(LookUp("7"), StartsWith("400 conversation_ids: a list is needed"));
  EXPECT_THAT(ErrorOf(Post("/v1/streams/lookup", "{}")),
              StartsWith("400 conversation_ids: a list of texts is needed"));
  EXPECT_THAT(ErrorOf(Post("/v1/streams/lookup", "[]")), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf(Post("/v1/streams/lookup", "{")), StartsWith("400 body: "));
}

TEST_F(StreamRoutesTest, AStreamIsListedOnce) {
  Say("a");
  Say("a::b");
  const Value found =
      ValueOf(Post("/v1/streams/lookup", R"({"conversation_ids":["a","a","a::b","none","",7]})"));
  ASSERT_TRUE(found.is_list());
  EXPECT_EQ(found.items().size(), 2u);
}

TEST_F(StreamRoutesTest, AStreamIsReadFromAByteAndDeleted) {
  Say("a");
  EXPECT_EQ(Get("/v1/stream?conv_id=a&from=2").body, "llo");
  EXPECT_THAT(ErrorOf(Get("/v1/stream?conv_id=a&from=x")), StartsWith("400 from"));
  EXPECT_THAT(ErrorOf(Get("/v1/stream")), StartsWith("400 conv_id"));
  EXPECT_EQ(Ask("DELETE", "/v1/stream?conv_id=a").status, 204);
  EXPECT_THAT(ErrorOf(Get("/v1/stream?conv_id=a")), StartsWith("404 "));
}

}  // namespace
}  // namespace kvd::http::test
