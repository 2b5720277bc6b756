// The routes that describe the models: GET /v1/models, /models, /v1/models/{id} and /models/{id}.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddModelRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
