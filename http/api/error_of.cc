#include "http/api/error_of.h"

#include <utility>

#include "http/answer/chat_plan.h"
#include "http/api/json_text.h"
#include "http/serve/error_reply.h"

namespace kvd::http {

int StatusOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kExists: return 400;
    case Code::kPermission: return 403;
    case Code::kNotFound: return 404;
    case Code::kUnsupported: return error.message == kNoImages ? 500 : 501;
    case Code::kNoTokenizer: return 501;
    case Code::kNoSpace:
    case Code::kBusy:
    case Code::kTimeout:
    case Code::kDisconnected:
    case Code::kSessionLost:
    case Code::kCancelled:
    case Code::kWindowLost: return 503;
    default: return 500;
  }
}

std::string ErrorBody(const Error& error) { return ErrorJson(StatusOf(error), error.message); }

Reply ReplyOf(const Error& error) {
  Reply reply;
  reply.status = StatusOf(error);
  reply.body = ErrorBody(error);
  return reply;
}

std::string TooLongBody(const TooLong& numbers) {
  Object error;
  error.Set("code", Value::Int(400))
      .Set("message", TooLongText(numbers))
      .Set("type", "exceed_context_size_error")
      .Set("n_prompt_tokens", CountValue(numbers.prompt_tokens))
      .Set("n_ctx", CountValue(numbers.context_tokens));
  return JsonText(Object().Set("error", error.Take()).Take());
}

Reply TooLongReply(const TooLong& numbers) {
  Reply reply;
  reply.status = 400;
  reply.body = TooLongBody(numbers);
  return reply;
}

}  // namespace kvd::http
