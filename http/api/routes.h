// All routes of the gateway.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

// REQUIRES: the gateway outlives the router.
void AddRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
