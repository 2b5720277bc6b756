// Conversation: what a later request needs to continue a stream that has ended (fork_from with an
// X-Conversation-Id). The stream's first answer fills it; the stream's job keeps it.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "text/tool_calls/answer_parser.h"
#include "text/value.h"

namespace kvd::http {

struct Conversation {
  // Of the prompt and the answer; empty: the answer has not ended, or its context was shifted.
  std::vector<TokenId> tokens;
  std::string model;  // that the tokens are of
  // Of a chat: the messages before the answer and the tools in OpenAI's form, and the answer;
  // missing: the stream is no chat.
  Value messages;
  Value tools;
  ParsedAnswer answer;
};

}  // namespace kvd::http
