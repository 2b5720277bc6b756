// The routes of OpenAI's chat completions: POST /chat/completions, /v1/chat/completions, and
// .../input_tokens, which counts the tokens of the prompt.
#pragma once

#include "http/answer/gateway.h"
#include "http/serve/router.h"

namespace kvd::http {

void AddOpenAiChatRoutes(Gateway& gateway, Router& router);

}  // namespace kvd::http
