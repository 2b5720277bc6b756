// Anthropic's routes: POST /v1/messages and /v1/messages/count_tokens.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddMessagesRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
