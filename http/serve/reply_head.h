// The status line and the headers of a reply.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "http/serve/request.h"

namespace kvd::http {

// How the end of the body is known.
enum class BodyEnd : unsigned char {
  kLength,  // Content-Length: the body of the Reply
  kChunks,  // Transfer-Encoding: chunked
  kClose,   // the connection ends (HTTP/1.0)
};

struct HeadForm {
  BodyEnd body_end = BodyEnd::kLength;
  bool keeps_connection = true;
  bool is_http_1_0 = false;  // of the request
  std::chrono::seconds idle_time{};
  std::vector<Header> cors_headers;
};

// Writes the head, with the empty line at its end. Control characters in headers become spaces. A
// reply of status 1xx, 204 or 304 has no Content-Length.
std::string WriteReplyHead(const Reply& reply, const HeadForm& form);

// Returns whether a reply of this status can have a body.
bool StatusHasBody(int status);

}  // namespace kvd::http
