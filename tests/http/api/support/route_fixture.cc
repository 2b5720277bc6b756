#include "tests/http/api/support/route_fixture.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "http/serve/request.h"
#include "tests/e2e/support/served_daemon.h"
#include "text/json.h"

namespace kvd::http::test {
namespace {

// Keeps the reply that a handler sends.
class KeptReply final : public Responder {
 public:
  Await<bool> Send(GatewayReply reply) override {
    sent_ = std::move(reply);
    co_return true;
  }
  Await<bool> Begin(GatewayReply head) override {
    sent_ = std::move(head);
    sent_->body.clear();
    co_return true;
  }
  Await<bool> Write(std::string bytes) override {
    sent_->body += bytes;
    co_return true;
  }
  Await<bool> End() override { co_return true; }
  bool is_gone() const override { return false; }
  void OnGone(std::function<void()>) override {}

  const std::optional<GatewayReply>& sent() const { return sent_; }

 private:
  std::optional<GatewayReply> sent_;
};

Await<GatewayReply> Handle(const Handler& handler, const Request& request,
                           const std::vector<std::string>& parts) {
  KeptReply kept;
  co_await handler(request, parts, kept);
  EXPECT_TRUE(kept.sent()) << "the handler has sent nothing";
  co_return kept.sent().value_or(GatewayReply{.status = 0, .body = {}});
}

}  // namespace

void RouteTest::Start(const std::string& model_path) {
  std::vector<std::string> arguments = {"-c", std::to_string(pool_cells_), "-t", "1",
                                        "--deterministic"};
  if (!model_path.empty()) arguments.insert(arguments.end(), {"-m", model_path});
  auto started = DaemonProcess::Start({.kvd_path = kvd::test::KvdPath(), .arguments = arguments});
  ASSERT_TRUE(started) << started.error().message;
  daemon_.emplace(std::move(*started));
  ServeAs({"toy", "org/other"});
}

void RouteTest::ServeAs(std::vector<std::string> names) {
  const auto open = [this](const std::string& tenant) {
    return DaemonSession::Open(
        loop_, {.socket_path = daemon_->socket_path(), .tenant = TenantIdOf(tenant)});
  };
  const auto session = open("");
  ASSERT_TRUE(session) << session.error().message;
  static const std::string start(kStartLabel);
  auto model = Run(ServedModel::Create(**session, settings_, std::move(names)), &start);
  ASSERT_TRUE(model) << model.error().message;
  auto backend = std::make_unique<Backend>();
  backend->model = std::move(*model);
  backend->open = open;
  gateway_.Add(std::move(backend));
}

std::array<std::uint8_t, 16> RouteTest::TenantIdOf(const std::string& name) {
  std::array<std::uint8_t, 16> id{};
  std::ranges::copy(std::string_view(name).substr(0, id.size()), id.begin());
  return id;
}

void RouteTest::TearDown() {
  EXPECT_EQ(watch_.UnexplainedLongTurns(), "");
  if (!daemon_) return;
  const Status stopped = daemon_->Stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
}

void RouteTest::RunUntil(const std::function<bool()>& is_done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  loop_.restart();
  while (!is_done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the coroutine does not end";
    (void)watch_.RunOneFor(std::chrono::milliseconds(100));
    if (loop_.stopped()) loop_.restart();
  }
}

GatewayReply RouteTest::Ask(std::string_view method, std::string_view target, std::string body) {
  auto read = ReadRequestTarget(target);
  EXPECT_TRUE(read) << target;
  Request request{.method = std::string(method),
                  .path = std::move(read->path),
                  .query = std::move(read->query),
                  .headers = headers_,
                  .body = std::move(body),
                  .key = {},
                  .tenant = caller_};
  const Router::Match match = router_.Find(method, request.path);
  EXPECT_NE(match.route, nullptr) << target;
  if (match.route == nullptr) return {.status = 404, .body = {}};
  return Run(Handle(match.route->handler, request, match.parts), &match.route->pattern);
}

Value RouteTest::ValueOf(const GatewayReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const auto value = ParseJson(reply.body);
  EXPECT_TRUE(value) << reply.body;
  return value ? *value : Value();
}

std::string RouteTest::ErrorOf(const GatewayReply& reply) {
  const auto value = ParseJson(reply.body);
  EXPECT_TRUE(value) << reply.body;
  if (!value || reply.status == 200) return std::to_string(reply.status);
  return std::to_string(reply.status) + " " + std::string(At(*value, "error.message").view());
}

}  // namespace kvd::http::test
