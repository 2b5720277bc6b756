// The bytes of a reply: its head, and the writer of one reply to a connection.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "http/serve/request.h"

namespace kvd::http {

// The status line and the headers of a reply.

// How the end of the body is known.
enum class BodyEnd : unsigned char {
  kLength,  // Content-Length: the body of the GatewayReply
  kChunks,  // Transfer-Encoding: chunked
  kClose,   // the connection ends (HTTP/1.0)
};

struct ReplyHeadOptions {
  BodyEnd body_end = BodyEnd::kLength;
  bool keeps_connection = true;
  bool is_http_1_0 = false;  // of the request
  std::chrono::seconds idle_time{};
  std::vector<Header> cors_headers;
};

// Writes the head, with the empty line at its end. Control characters in headers become spaces. A
// reply of status 1xx, 204 or 304 has no Content-Length.
std::string WriteReplyHead(const GatewayReply& reply, const ReplyHeadOptions& head_options);

// Returns whether a reply of this status can have a body.
bool StatusHasBody(int status);

class HttpConnection;

// ReplyWriter: the Responder of a client's connection. It writes one reply.
//
// The connection owns it while the handler runs. A stream is in chunks; for HTTP/1.0 it ends with
// the connection. A reply to HEAD has the headers of the reply to GET; Begin then returns false,
// because the handler need not compute a body.
class ReplyWriter final : public Responder {
 public:
  // `form` is that of a whole reply. The connection must outlive the writer.
  ReplyWriter(HttpConnection& connection, ReplyHeadOptions head_options, bool is_for_head);

  Await<bool> Send(GatewayReply reply) override;
  Await<bool> Begin(GatewayReply head) override;
  Await<bool> Write(std::string bytes) override;
  Await<bool> End() override;
  bool is_gone() const override;
  void OnGone(std::function<void()> call) override;

  // Completes the reply after the handler has returned: 500 if it has sent nothing, an aborted
  // connection if a stream lacks its end. `has_failed`: the handler has thrown an exception.
  Await<void> Finish(bool has_failed);
  // Returns whether another reply can follow on the connection.
  bool keeps_connection() const {
    return state_ == State::kEnded && head_options_.keeps_connection;
  }

 private:
  enum class State : unsigned char { kNothing, kStreaming, kEnded };

  HttpConnection& connection_;
  ReplyHeadOptions head_options_;
  const bool is_for_head_;
  State state_ = State::kNothing;
};

}  // namespace kvd::http
