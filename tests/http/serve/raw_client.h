// RawClient: a socket that sends any bytes and reads replies, for tests of the HTTP server.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace kvd::http::test {

struct ReceivedReply {
  int status = 0;                              // 0: none
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool is_whole = false;  // the body has its end

  bool has(const std::string& name) const { return headers.contains(name); }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class RawClient {
 public:
  // Connects to a port of 127.0.0.1. `receive_bytes`: of the socket's buffer; 0: the system's.
  explicit RawClient(std::uint16_t port, int receive_bytes = 0);
  explicit RawClient(const std::string& unix_path);

  bool is_connected() const { return static_cast<bool>(socket_); }
  // Returns false if the server does not take the bytes.
  bool Send(std::string_view bytes);
  // Sends "METHOD TARGET HTTP/1.1" with a Host and further header lines ("A: b\r\n"), and a body
  // with its length if there is one.
  bool SendRequest(std::string_view method, std::string_view target, std::string_view headers = "",
                   std::string_view body = "");
  // Reads the next reply. `has_body`: false for a reply to HEAD.
  ReceivedReply ReadReply(bool has_body = true);
  // Reads until the server closes the connection and returns the bytes.
  std::string ReadToEnd();
  // Returns whether the server closes the connection; drops bytes before the end.
  bool ReadsEnd();
  // Returns whether at least `byte_count` bytes have arrived within the buffer.
  bool ReadsBytes(std::size_t byte_count);
  const std::string& buffer() const { return buffer_; }

  void CloseSendingSide() { ::shutdown(socket_.get(), SHUT_WR); }
  void Close() { socket_.reset(); }
  void Reset();
  int descriptor() const { return socket_.get(); }

 private:
  // Reads some bytes into the buffer. Returns false at the end, after an error, or after a minute.
  bool Fill();

  UniqueFd socket_;
  std::string buffer_;
  bool has_timed_out_ = false;
};

}  // namespace kvd::http::test
