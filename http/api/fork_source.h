// The context that "fork_from" names, for completions and for chats.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/answer_request.h"
#include "http/answer/chat_plan.h"
#include "http/answer/fork_context.h"
#include "http/answer/gateway.h"
#include "http/answer/tenant_session.h"
#include "http/api/chat_reader.h"
#include "http/api/route_kinds.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

// ForkSource: what "fork_from" names: a stored response, the conversation of a stream with an
// X-Conversation-Id, or a snapshot.
//
//   KVD_CO_TRY(const ForkSource source, FindForkSource(gateway, tenant.name(), id));
//
// A completion continues the source's tokens: the suffixes are appended to them. A chat continues
// the source's messages, if it has some, or else its tokens.
struct ForkSource {
  std::vector<TokenId> tokens;  // empty: only the snapshot has them
  std::string snapshot;         // may be gone if there are tokens; empty: none
  Value messages;               // a list in OpenAI's format; missing: the source is no chat
  Value tools;                  // of the chat; missing: none
  std::string model;            // that the tokens are of; empty: that of the request
};

// Finds the source in the gateway's files and streams. An id of another form is the name of a
// snapshot. Errors: kNotFound: no such response; kInvalidArgument: a response or a conversation
// without a complete answer; kCorrupt: the stored response is damaged.
Result<ForkSource> FindForkSource(Gateway& gateway, const std::string& tenant,
                                  const std::string& id);

// The context of the source's tokens. The snapshot's cells are used if it exists; otherwise they
// are computed from the tokens. `request`: as for ForkContext::OfTokens. Errors: kNotFound: no such
// snapshot; kInvalidArgument: the tokens are of another model; those of the session.
Await<Result<std::shared_ptr<ForkContext>>> OpenForkContext(TenantSession& tenant,
                                                            ForkSource source,
                                                            AnswerRequest request);

// Chats of one request that continue the same context: "fork_from" with "prompts" (or "messages")
// in a chat completion.
//
// Each member of "prompts" is a message of the user (a text) or a list of messages. Behind a chat
// (a stored response, a conversation) the template formats the whole chat; the tokens that all
// prompts have in common are computed once. Behind other tokens (a snapshot, a completion) the
// template formats the new messages alone, and they follow the context's tokens.
struct ForkedChats {
  ChatCall call;  // of all plans
  std::vector<std::shared_ptr<const ChatPlan>> plans;
  std::shared_ptr<ForkContext> fork;  // null: the prompts have no token in common, or there is one
};

// Plans the answers to the prompts. `body` has fork_from. Errors: kInvalidArgument, with the
// field's name; those of FindForkSource, OpenForkContext and PlanChat.
Await<Result<ForkedChats>> PlanForkedChats(RouteCall route, TenantSession& tenant,
                                           const Value& body);

// Reads "prompts", or else "messages" as the only prompt, as lists of messages. Errors:
// kInvalidArgument.
Result<std::vector<std::vector<Value>>> ReadForkPrompts(const Fields& fields);

}  // namespace kvd::http
