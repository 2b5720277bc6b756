#include "http/api/answer_route.h"

#include <string>
#include <utility>
#include <vector>

#include "http/api/error_of.h"
#include "http/serve/error_reply.h"

namespace kvd::http {
namespace {

Await<void> ServeAnswer(AnswerHandler handler, RouteCall call) {
  Reply reply;
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
