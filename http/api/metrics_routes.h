// The route of Prometheus: GET /metrics, with --metrics.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddMetricsRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
