// The routes of streams that outlive their clients, as llama-server has them: GET and DELETE
// /v1/stream, POST /v1/streams/lookup.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

// Adds the routes, and makes the POST routes with streams that the router has already resumable by
// the header X-Conversation-Id.
void AddStreamRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
