// OpenAI's Responses: POST /v1/responses, and GET, DELETE, /input_items, /cancel of stored ones.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddResponsesRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
