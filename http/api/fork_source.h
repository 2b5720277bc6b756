// ForkSource: what "fork_from" names: a stored response, the conversation of a stream with an
// X-Conversation-Id, or a snapshot.
//
//   KVD_CO_TRY(const ForkSource source, FindForkSource(gateway, tenant.name(), id));
//
// A completion continues the source's tokens: the suffixes are appended to them. A chat continues
// the source's messages, if it has some, or else its tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/answer/answer_request.h"
#include "http/answer/fork_context.h"
#include "http/answer/gateway.h"
#include "http/answer/tenant.h"
#include "http/loop/await.h"
#include "text/value.h"

namespace kvd::http {

struct ForkSource {
  std::vector<TokenId> tokens;  // empty: only the snapshot has them
  std::string snapshot;         // may be gone if there are tokens; empty: none
  Value messages;               // a list in OpenAI's form; missing: the source is no chat
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
Await<Result<std::shared_ptr<ForkContext>>> OpenForkContext(Tenant& tenant, ForkSource source,
                                                            AnswerRequest request);

}  // namespace kvd::http
