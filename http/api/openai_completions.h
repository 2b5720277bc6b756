// The route of OpenAI's completions: POST /v1/completions.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddOpenAiCompletionRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
