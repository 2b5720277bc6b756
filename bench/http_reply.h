// HttpReply: the bytes of one HTTP reply, read piece by piece by a load client.
//
// Owner: the load client, one HttpReply for each request in flight. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvd::bench {

class HttpReply {
 public:
  // Takes received bytes. Returns whether the reply is complete. Errors: kCorrupt (the bytes are
  // not an HTTP reply with a length or chunks, or bytes follow the reply).
  Result<bool> Take(std::string_view bytes);

  int status() const { return status_; }
  bool has_head() const { return status_ != 0; }
  // Whether the server keeps the connection for another request.
  bool keeps_connection() const { return keeps_connection_; }
  const std::string& body() const { return body_; }
  // Removes the body's bytes so far, so that a long stream occupies no memory.
  void DropBody() { body_.clear(); }

 private:
  Result<bool> TakeHead();
  Result<bool> TakeBody();
  Result<bool> TakeChunks();

  std::string pending_;  // received bytes that are not decoded yet
  std::string body_;
  bool keeps_connection_ = true;
  int status_ = 0;                               // 0: the head is not complete
  std::optional<std::size_t> body_bytes_left_;   // nullopt: chunks
  std::optional<std::size_t> chunk_bytes_left_;  // of the present chunk and its line end
};

}  // namespace kvd::bench
