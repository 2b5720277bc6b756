// The routes of llama-server's own completions: POST /completion and /completions.
//
// Beyond llama-server: "fork_from" names a context (api/fork_source.h), and "prompts" are suffixes
// of its text, each of which gets an answer. The context is computed at most once.
#pragma once

#include <optional>
#include <vector>

#include "base/error.h"
#include "http/answer/answer_group.h"
#include "http/answer/gateway.h"
#include "http/answer/tenant_session.h"
#include "http/api/reply_fields.h"
#include "http/loop/await.h"
#include "http/serve/request.h"
#include "http/serve/router.h"
#include "text/value.h"

namespace kvd::http {

void AddLlamaCompletionRoutes(Gateway& gateway, Router& router);

// A completion that was read: answers to each of the prompts.
struct CompletionRequest {
  AnswerRequest request;  // of each prompt, without the prompt
  ReplyFields reply;
  std::vector<std::vector<TokenId>> prompts;  // with fork_from: what follows its context
};

// Reads everything but the prompts of a completion. Errors: kInvalidArgument, with the field's
// name; those of the session.
Await<Result<CompletionRequest>> ReadCompletion(TenantSession& tenant, const Value& body,
                                                Responder& responder);
// Reads the prompts: "prompt", or "fork_from" and "prompts". Errors: as above, and those of
// FindForkSource.
Await<Status> ReadPrompts(Gateway& gateway, TenantSession& tenant, const Value& body,
                          CompletionRequest& completion);

// The answers to the prompts, each started by itself.
std::vector<AnswerGroup<Answer>::Start> StartsOf(TenantSession& tenant,
                                                 const CompletionRequest& completion);

// The first prompt that does not fit into the context, if there is one.
std::optional<TooLong> FindTooLongPrompt(TenantSession& tenant,
                                         const CompletionRequest& completion);

// Generates and sends the answers in llama-server's own format. Errors: those that come before the
// reply has begun.
Await<Status> SendLlamaCompletion(TenantSession& tenant, CompletionRequest completion,
                                  Responder& responder);

}  // namespace kvd::http
