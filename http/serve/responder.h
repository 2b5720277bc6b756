// Responder: the reply to one request, which a handler sends whole or piece by piece.
//
// A handler calls Send once, or Begin, then Write any number of times, then End. The functions that
// return false say that the client is gone, or that the reply was cancelled: the handler stops its
// work and returns. Implementations: serve/connection.h (a client's connection) and
// answer/stream_buffer.h (a stream that outlives its client).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "http/loop/await.h"
#include "http/serve/request.h"

namespace kvd::http {

class Responder {
 public:
  virtual ~Responder() = default;

  // Sends a whole reply.
  virtual Await<bool> Send(Reply reply) = 0;

  // Begins a reply whose body follows in pieces. `head.body` is ignored.
  virtual Await<bool> Begin(Reply head) = 0;
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
