// Converts requests of Anthropic's Messages into the format of OpenAI's chat completions, which the
// chat routes read (api/openai_chat.cc). The functions are pure.
#pragma once

#include "base/error.h"
#include "text/value.h"

namespace kvd::http {

// `body` is a request of /v1/messages or /v1/messages/count_tokens. Members that Messages lacks
// (llama-server's own) are kept. Text that Claude Code changes with every request ("cch=" in its
// first system block) is masked, so that the prompt's prefix stays cached. Errors:
// kInvalidArgument, with the field's name; kUnsupported: a content block that is not supported.
// REQUIRES: `body` is a dict.
Result<Value> ReadMessagesAsOpenAi(const Value& body);

}  // namespace kvd::http
