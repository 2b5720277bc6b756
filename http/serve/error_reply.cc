#include "http/serve/error_reply.h"

#include <utility>

#include "text/json_builder.h"

namespace kvd::http {

std::string_view ErrorType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 405: return "method_not_allowed_error";
    case 408: return "timeout_error";
    case 413: return "request_too_large_error";
    case 429: return "rate_limit_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return status >= 400 && status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string ErrorJson(int status, std::string_view message, std::string_view type) {
  Json error;
  error.Set("code", status).Set("message", message).Set("type", type);
  return Json().Set("error", std::move(error)).Text();
}

Reply ErrorReply(int status, std::string_view message) {
  return ErrorReply(status, message, ErrorType(status));
}

Reply ErrorReply(int status, std::string_view message, std::string_view type) {
  Reply reply;
  reply.status = status;
  reply.body = ErrorJson(status, message, type);
  return reply;
}

}  // namespace kvd::http
