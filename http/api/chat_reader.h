// The body of a request for a chat, in the format of OpenAI's chat completions. The routes of other
// APIs convert their bodies to this format first.
#pragma once

#include "base/error.h"
#include "http/answer/answer_request.h"
#include "http/answer/chat_plan.h"
#include "http/answer/tenant_session.h"
#include "http/api/fields.h"
#include "http/api/reply_fields.h"
#include "http/loop/await.h"
#include "http/serve/request.h"
#include "text/value.h"

namespace kvd::http {

struct ChatCall {
  ChatInput input;
  AnswerRequest request;  // without prompt and journal
  ReplyFields reply;
};

// Reads a chat. Errors: kInvalidArgument, with the field's name; those of the session.
Await<Result<ChatCall>> ReadChatCall(TenantSession& tenant, const Value& body,
                                     const Request& request);

// The part that needs no session. Errors: kInvalidArgument, with the field's name.
Result<ChatInput> ReadChatInput(const Fields& fields, const Settings& settings);

}  // namespace kvd::http
