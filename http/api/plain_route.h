// PlainRoute: a route whose reply is sent whole.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/answer/gateway.h"
#include "http/loop/await.h"
#include "http/serve/request.h"
#include "http/serve/responder.h"
#include "http/serve/router.h"

namespace kvd::http {

// One request to a plain route. All of it lives until the handler returns.
struct RouteCall {
  Gateway& gateway;
  const Request& request;
  const std::vector<std::string>& parts;  // of the path: see Handler
  Responder& responder;                   // the handler sends nothing by itself
};

// The reply; an error becomes the reply of ReplyOf (api/error_of.h).
using PlainHandler = std::function<Await<Result<Reply>>(RouteCall call)>;

// Adds a route for each of the paths. While the gateway has no daemon yet, the routes answer 503,
// "Loading model".
void AddPlainRoutes(Gateway& gateway, Router& router, std::string_view method,
                    std::initializer_list<std::string_view> paths, const PlainHandler& handler);

// The body of the request (ParseBody).
enum class EmptyBody : bool { kIsRefused, kIsObject };
Await<Result<Value>> BodyOf(RouteCall call, EmptyBody empty = EmptyBody::kIsRefused);
// The tenant of the request for the model that the body names. Errors: those of Gateway::Find;
// kInvalidArgument: "model" is not a text.
Result<Tenant*> TenantOf(const RouteCall& call, const Value& body);
// The tenant of the request for the model that ?model= names.
Result<Tenant*> TenantOfQuery(const RouteCall& call);

}  // namespace kvd::http
