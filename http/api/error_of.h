// Errors as replies: which status and which type of error a kvd::Error becomes.
#pragma once

#include <string>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/serve/request.h"

namespace kvd::http {

// The status of an error: 400 for what is wrong with the request, 404, 501 for what kvd does not
// do, 503 for what may work later, 500 for everything else.
int StatusOf(const Error& error);

// The error's text for a client: what concerns this machine (paths, process ids, system calls) is
// left out, and is written to standard error instead.
std::string PublicText(const Error& error);
// {"error": {...}}, as the body of a reply or as the data of an event of a stream.
std::string ErrorBody(const Error& error);
GatewayReply ReplyOf(const Error& error);

// 400 exceed_context_size_error, with the members n_prompt_tokens and n_ctx.
std::string TooLongBody(const TooLong& numbers);
GatewayReply TooLongReply(const TooLong& numbers);

}  // namespace kvd::http
