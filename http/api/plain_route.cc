#include "http/api/plain_route.h"

#include <utility>

#include "http/api/body.h"
#include "http/api/error_of.h"
#include "http/api/fields.h"
#include "http/serve/error_reply.h"

namespace kvd::http {
namespace {

// The router owns the handler, and outlives the call.
Await<void> Serve(const PlainHandler& handler, RouteCall call) {
  Reply reply;
  if (call.gateway.backends().empty()) {
    reply = ErrorReply(503, "Loading model");
  } else {
    Result<Reply> result = co_await handler(call);
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

Result<Tenant*> TenantOf(const RouteCall& call, const Value& body) {
  KVD_TRY(const std::string model, Fields(body).String("model"));
  return call.gateway.Find(call.request.tenant, model);
}

Result<Tenant*> TenantOfQuery(const RouteCall& call) {
  const std::string_view model = call.request.query_value("model").value_or("");
  return call.gateway.Find(call.request.tenant, model);
}

}  // namespace kvd::http
