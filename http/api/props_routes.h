// The routes of the server's properties: GET and POST /props.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddPropsRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
