// The routes of the tokenizer: POST /tokenize and /detokenize.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddTokenizeRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
