#include "http/api/health_routes.h"

#include <string>
#include <utility>
#include <vector>

#include "http/serve/error_reply.h"

namespace kvd::http {
namespace {

Await<void> ShowHealth(const Gateway& gateway, Responder& responder) {
  Reply reply;
  reply.body = R"({"status":"ok"})";
  if (gateway.backends().empty()) reply = ErrorReply(503, "Loading model");
  co_await responder.Send(std::move(reply));
}

}  // namespace

void AddHealthRoutes(Gateway& gateway, Router& router) {
  for (const char* const path : {"/health", "/v1/health"}) {
    router.Add(
        {.method = "GET",
         .pattern = path,
         .access = RouteAccess::kPublic,
         .handler = [&gateway](const Request&, const std::vector<std::string>&,
                               Responder& responder) { return ShowHealth(gateway, responder); }});
  }
}

}  // namespace kvd::http
