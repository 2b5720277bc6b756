#include "http/api/route_kinds.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/serve/request.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// A longer body is parsed on a worker.
constexpr std::size_t kLoopBytesMax = std::size_t{64} << 10;

Result<Value> Parse(std::string_view body) {
  if (!IsValidUtf8(body)) return Fail(Code::kInvalidArgument, "body: not valid UTF-8");
  JsonLimits limits;
  limits.nesting_max = kBodyNestingMax;
  auto value = ParseJson(body, limits);
  if (!value) return Fail(Code::kInvalidArgument, "body: ", value.error().message);
  if (!value->is_dict()) return Fail(Code::kInvalidArgument, "body: not a JSON object");
  return value;
}

}  // namespace

Await<Result<Value>> ParseBody(const Request& request, LoopWorkers& workers) {
  const std::string_view body = request.body;
  if (body.size() <= kLoopBytesMax) co_return Parse(body);
  const auto parse = [body] { return Parse(body); };
  co_return co_await workers.Run(parse);
}

namespace {

// The router owns the handler, and outlives the call.
Await<void> Serve(const PlainHandler& handler, RouteCall call) {
  GatewayReply reply;
  if (call.gateway.backends().empty()) {
    reply = ErrorReply(503, "Loading model");
  } else {
    Result<GatewayReply> result = co_await handler(call);
    reply = result ? std::move(*result) : ReplyOf(result.error());
  }
  co_await call.responder.Send(std::move(reply));
}

}  // namespace

void AddPlainRoutes(Gateway& gateway, Router& router, std::string_view method,
                    std::initializer_list<std::string_view> paths, const PlainHandler& handler) {
  for (const std::string_view path : paths) {
    router.Add({.method = std::string(method),
                .pattern = std::string(path),
                .access = RouteAccess::kKey,
                .handler = [&gateway, handler](const Request& request,
                                               const std::vector<std::string>& parts,
                                               Responder& responder) {
                  return Serve(handler, RouteCall{gateway, request, parts, responder});
                }});
  }
}

Await<Result<Value>> BodyOf(RouteCall call, EmptyBody empty) {
  if (empty == EmptyBody::kIsObject && call.request.body.empty()) co_return Value::Of(Dict());
  co_return co_await ParseBody(call.request, call.gateway.workers());
}

Result<TenantSession*> TenantOf(const RouteCall& call, const Value& body) {
  KVD_TRY(const std::string model, Fields(body).String("model"));
  return call.gateway.Find(call.request.tenant, model);
}

Result<TenantSession*> TenantOfQuery(const RouteCall& call) {
  const std::string_view model = call.request.query_value("model").value_or("");
  return call.gateway.Find(call.request.tenant, model);
}

namespace {

Await<void> ServeAnswer(AnswerHandler handler, RouteCall call) {
  GatewayReply reply;
  if (call.gateway.backends().empty()) {
    reply = ErrorReply(503, "Loading model");
  } else {
    const Status status = co_await handler(call);
    if (status) co_return;
    reply = ReplyOf(status.error());
  }
  co_await call.responder.Send(std::move(reply));
}

}  // namespace

void AddAnswerRoutes(Gateway& gateway, Router& router,
                     std::initializer_list<std::string_view> paths, AnswerHandler handler) {
  for (const std::string_view path : paths) {
    router.Add({.method = "POST",
                .pattern = std::string(path),
                .access = RouteAccess::kKey,
                .handler = [&gateway, handler](const Request& request,
                                               const std::vector<std::string>& parts,
                                               Responder& responder) {
                  return ServeAnswer(handler, RouteCall{gateway, request, parts, responder});
                }});
  }
}

}  // namespace kvd::http
