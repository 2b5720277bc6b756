#include "http/serve/error_reply.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/utf8.h"
#include "text/json.h"

namespace kvd::http {
namespace {

std::string WithValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t byte_count = WellFormedBytes(text);
    if (byte_count == 0) {
      valid += "\xEF\xBF\xBD";
    } else {
      valid += text.substr(0, byte_count);
    }
    text.remove_prefix(std::max<std::size_t>(byte_count, 1));
  }
  return valid;
}

}  // namespace

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
  Dict error;
  error.Set("code", Value::Int(status));
  error.Set("message", Value::String(WithValidUtf8(message)));
  error.Set("type", Value::String(std::string(type)));
  Dict body;
  body.Set("error", Value::Of(std::move(error)));
  JsonStyle style;
  style.item_separator = ",";
  style.key_separator = ":";
  Result<std::string> text = WriteJson(Value::Of(std::move(body)), style);
  if (!text) return R"({"error":{"code":500,"message":"no message","type":"server_error"}})";
  return std::move(*text);
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
