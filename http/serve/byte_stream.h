// The bytes of one connection, and the TLS settings of a server.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"
#include "http/loop/await.h"

namespace kvd::http {

// The TLS settings of a server: its certificate and key, and TLS 1.2 or newer.
struct TlsFiles {
  std::string certificate;  // PEM, the server's certificate first, then its chain
  std::string key;          // PEM, not encrypted
};

// Errors: kInvalidArgument: a file that OpenSSL cannot read or use (the message names the file and
// OpenSSL's reason), or a key that does not belong to the certificate.
Result<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsFiles& files);

using StreamSocket =
    boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, Loop::executor_type>;

// ByteStream: the bytes of one connection, plain (TCP or a unix socket) or through TLS.
//
// At most one coroutine reads and at most one writes at a time; they may be different coroutines.
// Handshake and ShutDown are called while no other operation runs. Close may be called at any time
// and ends all operations. The loop must outlive the stream.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  virtual Await<bool> Handshake() = 0;
  // Reads some bytes. Returns 0 at the end of the client's bytes, none after an error or
  // CancelRead.
  virtual Await<std::optional<std::size_t>> ReadSome(std::span<char> into) = 0;
  // Writes some bytes. Returns none after an error.
  virtual Await<std::optional<std::size_t>> WriteSome(std::string_view bytes) = 0;
  // Ends the Read that waits now. Nothing else is cancelled.
  virtual void CancelRead() = 0;
  // Tells the client that no further bytes follow. Through TLS it also waits for the client's
  // answer, so the caller closes the stream after a time.
  virtual Await<void> ShutDown() = 0;
  // Whether a peer that has read all bytes can be waited for by reading until the end. False with
  // TLS, where ShutDown waits.
  virtual bool is_readable_after_shutdown() const = 0;
  virtual void Close() = 0;
  // Returns whether the client has closed its side, also if bytes before it are not read yet.
  virtual bool HasHungUp() = 0;

 protected:
  ByteStream() = default;
};

// Makes a stream of a connected socket, which is not blocking. `family`: AF_INET, ... REQUIRES:
// `socket` is open.
std::unique_ptr<ByteStream> MakePlainStream(Loop& loop, int family, UniqueFd socket);
std::unique_ptr<ByteStream> MakeTlsStream(Loop& loop, int family, UniqueFd socket,
                                          std::shared_ptr<boost::asio::ssl::context> context);

}  // namespace kvd::http
