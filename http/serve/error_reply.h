// Error replies: {"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}, as
// llama-server writes them.
#pragma once

#include <string>
#include <string_view>

#include "http/serve/request.h"

namespace kvd::http {

// The type that belongs to a status:
//   400 invalid_request_error    404 not_found_error     429 rate_limit_error
//   401 authentication_error     405 method_not_allowed_error
//   403 permission_error         408 timeout_error       501 not_supported_error
//   413 request_too_large_error  503 unavailable_error
// Any other 4xx: invalid_request_error; any other status: server_error.
// exceed_context_size_error (400) is a type that the caller names.
std::string_view ErrorType(int status);

// The text of the error body, for a stream too. Bytes of `message` that are not UTF-8 are replaced.
std::string ErrorJson(int status, std::string_view message, std::string_view type);
inline std::string ErrorJson(int status, std::string_view message) {
  return ErrorJson(status, message, ErrorType(status));
}

Reply ErrorReply(int status, std::string_view message);
Reply ErrorReply(int status, std::string_view message, std::string_view type);

}  // namespace kvd::http
