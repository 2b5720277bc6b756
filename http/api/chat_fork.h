// Chats of one request that continue the same context: "fork_from" with "prompts" (or "messages")
// in a chat completion.
//
// Each member of "prompts" is a turn of the user (a text) or a list of messages. Behind a chat (a
// stored response, a conversation) the template formats the whole chat; the tokens that all prompts
// have in common are computed once. Behind other tokens (a snapshot, a completion) the template
// formats the new messages alone, and they follow the context's tokens.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "http/answer/chat_plan.h"
#include "http/answer/fork_context.h"
#include "http/api/chat_body.h"
#include "http/api/plain_route.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

struct ForkedChats {
  ChatCall call;  // of all plans
  std::vector<std::shared_ptr<const ChatPlan>> plans;
  std::shared_ptr<ForkContext> fork;  // null: the prompts have no token in common, or there is one
};

// Plans the answers to the prompts. `body` has fork_from. Errors: kInvalidArgument, with the
// field's name; those of FindForkSource, OpenForkContext and PlanChat.
Await<Result<ForkedChats>> PlanForkedChats(RouteCall route, Tenant& tenant, const Value& body);

// Reads "prompts", or else "messages" as the only prompt, as lists of messages. Errors:
// kInvalidArgument.
Result<std::vector<std::vector<Value>>> ReadForkPrompts(const Fields& fields);

}  // namespace kvd::http
