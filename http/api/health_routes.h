// The routes that tell whether the gateway is ready: GET /health and /v1/health. They need no key.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

// 503 until the gateway has a daemon.
void AddHealthRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
