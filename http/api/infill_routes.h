// The route of fill-in-the-middle: POST /infill. Its replies are those of POST /completion.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddInfillRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
