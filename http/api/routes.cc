#include "http/api/routes.h"

#include "http/api/embedding_routes.h"
#include "http/api/health_routes.h"
#include "http/api/infill_routes.h"
#include "http/api/lora_routes.h"
#include "http/api/metrics_routes.h"
#include "http/api/model_routes.h"
#include "http/api/props_routes.h"
#include "http/api/refused_routes.h"
#include "http/api/rerank_routes.h"
#include "http/api/slot_routes.h"
#include "http/api/stream_routes.h"
#include "http/api/template_routes.h"
#include "http/api/tokenize_routes.h"

namespace kvd::http {

void AddRoutes(Gateway& gateway, Router& router) {
  AddRefusedRoutes(router);
  AddHealthRoutes(gateway, router);
  AddModelRoutes(gateway, router);
  AddPropsRoutes(gateway, router);
  AddTokenizeRoutes(gateway, router);
  AddTemplateRoutes(gateway, router);
  AddInfillRoutes(gateway, router);
  AddEmbeddingRoutes(gateway, router);
  AddRerankRoutes(gateway, router);
  AddSlotRoutes(gateway, router);
  AddMetricsRoutes(gateway, router);
  AddStreamRoutes(gateway, router);
  AddLoraRoutes(gateway, router);
}

}  // namespace kvd::http
