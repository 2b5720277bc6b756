// All routes of the gateway, and the functions that add those of one file each.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

// REQUIRES: the gateway outlives the router.
void AddRoutes(Gateway& gateway, Router& router);

// 503 until the gateway has a daemon.
void AddHealthRoutes(Gateway& gateway, Router& router);
// Adds the page, unless the settings say that there is none.
void AddPageRoutes(Gateway& gateway, Router& router);
void AddModelRoutes(Gateway& gateway, Router& router);
void AddPropsRoutes(Gateway& gateway, Router& router);
void AddLoraRoutes(Gateway& gateway, Router& router);
void AddTokenizeRoutes(Gateway& gateway, Router& router);
void AddTemplateRoutes(Gateway& gateway, Router& router);
void AddOpenAiCompletionRoutes(Gateway& gateway, Router& router);
void AddOpenAiChatRoutes(Gateway& gateway, Router& router);
void AddInfillRoutes(Gateway& gateway, Router& router);
void AddEmbeddingRoutes(Gateway& gateway, Router& router);
void AddRerankRoutes(Gateway& gateway, Router& router);
void AddSlotRoutes(Gateway& gateway, Router& router);
void AddMetricsRoutes(Gateway& gateway, Router& router);
void AddMessagesRoutes(Gateway& gateway, Router& router);
void AddResponsesRoutes(Gateway& gateway, Router& router);
// Is called before GET /models/{*} is added, which would serve GET /models/sse.
void AddRefusedRoutes(Router& router);
// Adds the routes, and makes the POST routes with streams that the router has already resumable by
// the header X-Conversation-Id.
void AddStreamRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
