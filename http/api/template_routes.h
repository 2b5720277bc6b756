// The route that formats a chat without answering it: POST /apply-template.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddTemplateRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
