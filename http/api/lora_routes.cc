#include "http/api/lora_routes.h"

#include "http/api/plain_route.h"
#include "text/json.h"

namespace kvd::http {
namespace {

Await<Result<Reply>> ListAdapters(RouteCall) {
  Reply reply;
  reply.body = "[]";
  co_return reply;
}

Await<Result<Reply>> SetAdapters(RouteCall call) {
  const auto body = ParseJson(call.request.body);
  if (!body) co_return Fail(Code::kInvalidArgument, "body: ", body.error().message);
  if (!body->is_list()) co_return Fail(Code::kInvalidArgument, "Request body must be an array");
  if (!body->items().empty()) {
    co_return Fail(Code::kUnsupported, "LoRA adapters are not supported by kvd");
  }
  Reply reply;
  reply.body = R"({"success":true})";
  co_return reply;
}

}  // namespace

void AddLoraRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "GET", {"/lora-adapters"}, ListAdapters);
  AddPlainRoutes(gateway, router, "POST", {"/lora-adapters"}, SetAdapters);
}

}  // namespace kvd::http
