// The routes of rerankers: POST /rerank, /reranking, /v1/rerank and /v1/reranking, in the forms of
// Jina ("documents") and of Text Embeddings Inference ("texts").
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddRerankRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
