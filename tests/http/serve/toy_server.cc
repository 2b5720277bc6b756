#include "tests/http/serve/toy_server.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <new>

#include "base/text.h"
#include "http/loop/await.h"

namespace kvd::http::test {
namespace {

namespace asio = boost::asio;

GatewayReply TextReply(std::string text) {
  GatewayReply reply;
  reply.body = std::move(text);
  reply.content_type = "text/plain";
  return reply;
}

GatewayReply StreamHead() {
  GatewayReply head;
  head.content_type = std::string(kEventStreamType);
  return head;
}

using Parts = std::vector<std::string>;

Await<void> Health(const Request&, const Parts&, Responder& responder) {
  GatewayReply reply;
  reply.body = R"({"status":"ok"})";
  (void)co_await responder.Send(std::move(reply));
}

Await<void> EchoBody(const Request& request, const Parts&, Responder& responder) {
  GatewayReply reply = TextReply(request.body);
  (void)co_await responder.Send(std::move(reply));
}

Await<void> EchoHead(const Request& request, const Parts&, Responder& responder) {
  std::string text = Concat(request.method, "\n", request.path, "\n");
  for (const auto& [name, value] : request.query) text += Concat(name, "=", value, ";");
  text += Concat("\n", request.key, "\n", request.tenant, "\n", request.header("hOST"), "\n");
  GatewayReply reply = TextReply(std::move(text));
  (void)co_await responder.Send(std::move(reply));
}

Await<void> EchoParts(const Request&, const Parts& parts, Responder& responder) {
  std::string text;
  for (const std::string& part : parts) text += part + "|";
  GatewayReply reply = TextReply(std::move(text));
  (void)co_await responder.Send(std::move(reply));
}

Await<void> StreamThree(const Request&, const Parts&, Responder& responder) {
  GatewayReply head = StreamHead();
  const bool has_begun = co_await responder.Begin(std::move(head));
  if (!has_begun) co_return;
  for (const std::string piece : {"one", "", "two", "three"}) {
    const bool is_written = co_await responder.Write(piece);
    if (!is_written) co_return;
  }
  (void)co_await responder.End();
}

Await<void> SendBig(const Request&, const Parts&, Responder& responder) {
  GatewayReply reply = TextReply(std::string(4u << 20, 'b'));
  (void)co_await responder.Send(std::move(reply));
}

Await<void> Throw(const Request&, const Parts&, Responder&) {
  throw std::bad_alloc();
  co_return;
}

Await<void> ThrowLate(const Request&, const Parts&, Responder& responder) {
  GatewayReply head = StreamHead();
  (void)co_await responder.Begin(std::move(head));
  throw std::bad_alloc();
}

Await<void> SendNothing(const Request&, const Parts&, Responder&) { co_return; }

Await<void> SendHalf(const Request&, const Parts&, Responder& responder) {
  GatewayReply head = StreamHead();
  (void)co_await responder.Begin(std::move(head));
  (void)co_await responder.Write("half");
}

Await<void> SendSplit(const Request&, const Parts&, Responder& responder) {
  GatewayReply reply = TextReply("split");
  reply.headers.push_back(Header{"X-Split", "a\r\nX-Injected: b"});
  (void)co_await responder.Send(std::move(reply));
}

Await<void> SendNoContent(const Request&, const Parts&, Responder& responder) {
  GatewayReply reply;
  reply.status = 204;
  (void)co_await responder.Send(std::move(reply));
}

}  // namespace

struct ToyServer::State {
  explicit State(AccessOptions options) : access(std::move(options)), released(loop) {}

  Await<void> WaitForEnd(ToyServer& server, Responder& responder) {
    Signal changed(loop);
    responder.OnGone([&] {
      ++server.gone_count;
      changed.Notify();
    });
    ++server.started_count;
    while (!responder.is_gone() && !is_released) {
      // Whichever comes first: the interval bounds the wait for Release.
      (void)co_await changed.WaitFor(std::chrono::milliseconds(5));
    }
    responder.OnGone(nullptr);
    ++server.ended_count;
  }

  Loop loop;
  asio::executor_work_guard<Loop::executor_type> work{loop.get_executor()};
  Router router;
  AccessRules access;
  Signal released;
  bool is_released = false;
  std::unique_ptr<HttpListener> listener;
};

ToyServer::ToyServer(const ToyOptions& options) : state_(std::make_unique<State>(options.access)) {
  AddRoutes();
  const Result<ListenAddress> address = ResolveListenAddress(options.host, 0);
  if (!address) std::abort();
  ListenOptions listen{.address = *address, .tls = options.tls, .limits = options.limits};
  for (const std::string& network : options.trusted_proxies) {
    listen.trusted_proxies.push_back(*AddressRange::Read(network));
  }
  Result<std::unique_ptr<HttpListener>> listener =
      HttpListener::Create(state_->loop, listen, state_->router, state_->access);
  if (!listener) {
    std::fprintf(stderr, "%s\n", listener.error().message.c_str());
    std::abort();
  }
  state_->listener = std::move(*listener);
  port_ = state_->listener->port();
  url_ = state_->listener->url();
  state_->listener->Start();
  thread_ = std::thread([this] { state_->loop.run(); });
}

ToyServer::~ToyServer() {
  if (thread_.joinable()) Stop();
}

void ToyServer::AddRoutes() {
  Router& router = state_->router;
  const auto get = [&](const char* pattern, Handler handler) {
    router.Add(Route{.method = "GET", .pattern = pattern, .handler = std::move(handler)});
  };
  router.Add(Route{
      .method = "GET", .pattern = "/health", .access = RouteAccess::kPublic, .handler = Health});
  router.Add(Route{
      .method = "POST", .pattern = "/open", .access = RouteAccess::kPublic, .handler = EchoBody});
  router.Add(Route{.method = "POST", .pattern = "/echo", .handler = EchoBody});
  get("/echo", EchoHead);
  get("/part/{}", EchoParts);
  get("/rest/{*}", EchoParts);
  get("/stream", StreamThree);
  get("/big", SendBig);
  get("/throw", Throw);
  get("/throw-late", ThrowLate);
  get("/silent", SendNothing);
  get("/half", SendHalf);
  get("/split", SendSplit);
  get("/nothing", SendNoContent);
  get("/wait", [this](const Request&, const Parts&, Responder& responder) -> Await<void> {
    co_await state_->WaitForEnd(*this, responder);
    GatewayReply reply = TextReply("waited");
    (void)co_await responder.Send(std::move(reply));
  });
  get("/wait-stream", [this](const Request&, const Parts&, Responder& responder) -> Await<void> {
    GatewayReply head = StreamHead();
    (void)co_await responder.Begin(std::move(head));
    co_await state_->WaitForEnd(*this, responder);
    (void)co_await responder.End();
  });
  get("/flood", [this](const Request&, const Parts&, Responder& responder) -> Await<void> {
    GatewayReply head = StreamHead();
    bool is_written = co_await responder.Begin(std::move(head));
    ++started_count;
    while (is_written) is_written = co_await responder.Write(std::string(64u << 10, 'f'));
    ++ended_count;
  });
}

void ToyServer::Release() {
  asio::post(state_->loop, [this] { state_->is_released = true; });
}

void ToyServer::Stop(std::chrono::milliseconds grace) {
  asio::post(state_->loop, [this, grace] {
    asio::co_spawn(
        state_->loop,
        [this, grace]() -> Await<void> {
          co_await state_->listener->Stop(grace);
          EXPECT_EQ(state_->listener->connections().connection_count(), 0u);
          EXPECT_EQ(state_->listener->connections().peer_count(), 0u);
          EXPECT_EQ(state_->listener->bodies().byte_count(), 0u);
          EXPECT_EQ(state_->listener->bodies().address_count(), 0u);
          state_->listener.reset();
          state_->work.reset();
        },
        asio::detached);
  });
  thread_.join();
}

std::size_t ToyServer::connection_count() {
  std::promise<std::size_t> count;
  asio::post(state_->loop,
             [&] { count.set_value(state_->listener->connections().connection_count()); });
  return count.get_future().get();
}

std::size_t ToyServer::held_body_bytes() {
  std::promise<std::size_t> count;
  asio::post(state_->loop, [&] { count.set_value(state_->listener->bodies().byte_count()); });
  return count.get_future().get();
}

}  // namespace kvd::http::test
