// The routes of llama-server, OpenAI and Ollama that kvd does not serve. Each answers 501 with what
// is not supported, so that a client does not take the gateway for one that lacks the path.
#pragma once

#include "http/serve/router.h"

namespace kvd::http {

// Is called before GET /models/{*} is added, which would serve GET /models/sse.
void AddRefusedRoutes(Router& router);

}  // namespace kvd::http
