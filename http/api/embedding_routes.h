// The routes of embeddings: POST /embedding, /embeddings (llama-server's form) and /v1/embeddings
// (OpenAI's).
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddEmbeddingRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
