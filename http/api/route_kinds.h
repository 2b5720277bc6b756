// The two kinds of routes: replies sent whole, and replies sent by their handlers.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/answer/gateway.h"
#include "http/loop/await.h"
#include "http/loop/loop_workers.h"
#include "http/serve/request.h"
#include "http/serve/router.h"
#include "text/value.h"

namespace kvd::http {

// The body of a request: one JSON object.

// Parses the body, on a worker if it is long. Errors: kInvalidArgument: the body is not UTF-8, not
// JSON, not an object, or nested too deeply (kBodyNestingMax).
Await<Result<Value>> ParseBody(const Request& request, LoopWorkers& workers);

// PlainRoute: a route whose reply is sent whole.

// One request to a plain route. All of it lives until the handler returns.
struct RouteCall {
  Gateway& gateway;
  const Request& request;
  const std::vector<std::string>& parts;  // of the path: see Handler
  Responder& responder;                   // the handler sends nothing by itself
};

// The reply; an error becomes the reply of ReplyOf (api/error_of.h).
using PlainHandler = std::function<Await<Result<GatewayReply>>(RouteCall call)>;

// Adds a route for each of the paths. While the gateway has no daemon yet, the routes answer 503,
// "Loading model".
void AddPlainRoutes(Gateway& gateway, Router& router, std::string_view method,
                    std::initializer_list<std::string_view> paths, const PlainHandler& handler);

// The body of the request (ParseBody).
enum class EmptyBody : bool { kIsRefused, kIsObject };
Await<Result<Value>> BodyOf(RouteCall call, EmptyBody empty = EmptyBody::kIsRefused);
// The tenant of the request for the model that the body names. Errors: those of Gateway::Find;
// kInvalidArgument: "model" is not a text.
Result<TenantSession*> TenantOf(const RouteCall& call, const Value& body);
// The tenant of the request for the model that ?model= names.
Result<TenantSession*> TenantOfQuery(const RouteCall& call);

// Routes whose handlers send the reply themselves, because it may be a stream.

// Sends the reply. An error, which the handler returns before it has sent anything, becomes the
// reply of ReplyOf (api/error_of.h).
using AnswerHandler = Await<Status> (*)(RouteCall call);

// Adds a POST route for each of the paths. While the gateway has no daemon yet, the routes answer
// 503, "Loading model".
void AddAnswerRoutes(Gateway& gateway, Router& router,
                     std::initializer_list<std::string_view> paths, AnswerHandler handler);

}  // namespace kvd::http
