#include "http/api/template_routes.h"

#include <utility>

#include "http/answer/chat_plan.h"
#include "http/api/chat_body.h"
#include "http/api/fields.h"
#include "http/api/json_text.h"
#include "http/api/plain_route.h"

namespace kvd::http {
namespace {

Await<Result<Reply>> ApplyTemplate(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(Tenant* const tenant, TenantOf(call, body));
  KVD_CO_TRY(ChatInput input, ReadChatInput(Fields(body), call.gateway.settings()));
  KVD_CO_TRY(const ChatText text, co_await FormatChat(*tenant, std::move(input)));
  Reply reply;
  reply.body = JsonText(Object().Set("prompt", text.prompt).Take());
  co_return reply;
}

}  // namespace

void AddTemplateRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "POST", {"/apply-template"}, ApplyTemplate);
}

}  // namespace kvd::http
