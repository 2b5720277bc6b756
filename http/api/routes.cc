#include "http/api/routes.h"

#include "http/api/embedding_routes.h"
#include "http/api/health_routes.h"
#include "http/api/infill_routes.h"
#include "http/api/llama_completion.h"
#include "http/api/lora_routes.h"
#include "http/api/messages_routes.h"
#include "http/api/metrics_routes.h"
#include "http/api/model_routes.h"
#include "http/api/openai_chat.h"
#include "http/api/openai_completions.h"
#include "http/api/page_routes.h"
#include "http/api/props_routes.h"
#include "http/api/refused_routes.h"
#include "http/api/rerank_routes.h"
#include "http/api/responses_routes.h"
#include "http/api/slot_routes.h"
#include "http/api/stream_routes.h"
#include "http/api/template_routes.h"
#include "http/api/tokenize_routes.h"

namespace kvd::http {

void AddRoutes(Gateway& gateway, Router& router) {
  AddRefusedRoutes(router);
  AddHealthRoutes(gateway, router);
  AddPageRoutes(gateway, router);
  AddModelRoutes(gateway, router);
  AddPropsRoutes(gateway, router);
  AddTokenizeRoutes(gateway, router);
  AddTemplateRoutes(gateway, router);
  AddLlamaCompletionRoutes(gateway, router);
  AddOpenAiCompletionRoutes(gateway, router);
  AddOpenAiChatRoutes(gateway, router);
  AddInfillRoutes(gateway, router);
  AddEmbeddingRoutes(gateway, router);
  AddRerankRoutes(gateway, router);
  AddSlotRoutes(gateway, router);
  AddMetricsRoutes(gateway, router);
  AddLoraRoutes(gateway, router);
  AddMessagesRoutes(gateway, router);
  AddResponsesRoutes(gateway, router);
  // Last, because it makes the routes before it resumable.
  AddStreamRoutes(gateway, router);
}

}  // namespace kvd::http
