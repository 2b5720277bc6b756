// Comments in streams of events that are silent (--sse-ping-interval), so that the client and what
// lies between see that the stream is alive.
#pragma once

#include <chrono>
#include <functional>

#include "http/api/reply_fields.h"
#include "http/loop/await.h"
#include "http/serve/request.h"

namespace kvd::http {

// The time after which the stream of a handler gets a comment; 0: none. A stream that is made again
// after a restart has the same bytes, and therefore no comments.
std::chrono::seconds CommentTime(const ReplyFields& fields, const Responder& responder);

// Calls `handle` with a Responder that passes everything on to `client`, and sends the comment
// ":\n\n" whenever the handler has sent nothing for `time`; 0: no comments. The reply must be a
// stream of events. A comment may begin the stream; if the handler then sends a whole reply, for an
// error, its body becomes the last event, named "error".
Await<void> WithComments(Loop& loop, Responder& client, std::chrono::milliseconds time,
                         std::function<Await<void>(Responder&)> handle);

}  // namespace kvd::http
