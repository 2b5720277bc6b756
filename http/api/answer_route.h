// Routes whose handlers send the reply themselves, because it may be a stream.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "http/answer/gateway.h"
#include "http/api/plain_route.h"
#include "http/loop/await.h"
#include "http/serve/router.h"

namespace kvd::http {

// Sends the reply. An error, which the handler returns before it has sent anything, becomes the
// reply of ReplyOf (api/error_of.h).
using AnswerHandler = Await<Status> (*)(RouteCall call);

// Adds a POST route for each of the paths. While the gateway has no daemon yet, the routes answer
// 503, "Loading model".
void AddAnswerRoutes(Gateway& gateway, Router& router,
                     std::initializer_list<std::string_view> paths, AnswerHandler handler);

}  // namespace kvd::http
