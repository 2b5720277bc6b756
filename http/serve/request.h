// A request to a handler, and the ways to reply to it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/loop/await.h"

namespace kvd::http {

// The target of a request line: its path and query, percent-decoded.
struct RequestTarget {
  std::string path;  // begins with "/", or is "*" (OPTIONS)
  std::vector<std::pair<std::string, std::string>> query;
  // Of a target in the absolute form, "http://HOST/path"; it replaces the Host header.
  std::optional<std::string> host;
};

// Reads the forms of RFC 9112, section 3.2, without the authority form (CONNECT). A "+" in the
// query is a space. Errors: kInvalidArgument: another form, a bad percent-encoding, a zero byte, or
// bytes that are not UTF-8.
Result<RequestTarget> ReadRequestTarget(std::string_view target);

// Request: one HTTP request, read and checked, and GatewayReply: a whole answer to it.
struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;  // "GET", "POST", ...; a HEAD request is handled as GET, without its body
  std::string path;    // percent-decoded, without the query: "/v1/chat/completions"
  // Percent-decoded names and values of the query, in their order. Path and query are valid UTF-8.
  std::vector<std::pair<std::string, std::string>> query;
  std::vector<Header> headers;  // without the trailers of a body in chunks
  std::string body;
  // The key of the request (Authorization: Bearer or X-Api-Key); empty: none.
  std::string key;
  // The name of the tenant to whom the key belongs; empty on a server without keys.
  std::string tenant;
  // A random number, and the time of arrival in seconds of Unix time. A handler makes its ids and
  // seeds from them, so that it makes the same ones when it runs again after a restart.
  std::uint64_t nonce = NewNonce();
  std::int64_t unix_s = UnixSeconds();

  static std::uint64_t NewNonce();
  static std::int64_t UnixSeconds();
  // The value of the first header of this name, compared without regard to case; empty: none.
  std::string_view header(std::string_view name) const;
  // The value of the first part of the query with this name: "" for "?name" and "?name=".
  std::optional<std::string_view> query_value(std::string_view name) const;
};

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kEventStreamType = "text/event-stream";

struct GatewayReply {
  int status = 200;
  std::string body;
  std::string content_type = std::string(kJsonType);
  std::vector<Header> headers = {};  // further headers
};

// Error replies: {"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}, as
// llama-server writes them.

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

GatewayReply ErrorReply(int status, std::string_view message);
GatewayReply ErrorReply(int status, std::string_view message, std::string_view type);

// Responder: the reply to one request, which a handler sends whole or piece by piece.
//
// A handler calls Send once, or Begin, then Write any number of times, then End. The functions that
// return false say that the client is gone, or that the reply was cancelled: the handler stops its
// work and returns. Implementations: serve/connection.h (a client's connection) and
// answer/stream_buffer.h (a stream that outlives its client).
class Responder {
 public:
  virtual ~Responder() = default;

  // Sends a whole reply.
  virtual Await<bool> Send(GatewayReply reply) = 0;

  // Begins a reply whose body follows in pieces. `head.body` is ignored.
  virtual Await<bool> Begin(GatewayReply head) = 0;
  // Sends a piece, and waits until the connection has taken it, so a slow client slows the handler.
  virtual Await<bool> Write(std::string bytes) = 0;
  virtual Await<bool> End() = 0;

  virtual bool is_gone() const = 0;
  // Calls `call` once, on the loop, when the client is gone: at once if it is gone already. A later
  // call replaces the function; nullptr removes it. What the function refers to must live until the
  // handler returns, or until the handler removes the function: the client may vanish during Send.
  virtual void OnGone(std::function<void()> call) = 0;

 protected:
  Responder() = default;
  Responder(const Responder&) = default;
  Responder& operator=(const Responder&) = default;
};

}  // namespace kvd::http
