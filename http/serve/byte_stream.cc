#include "http/serve/byte_stream.h"

#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <cstddef>
#include <new>
#include <string_view>
#include <utility>

namespace kvd::http {
namespace {

namespace ssl = boost::asio::ssl;

// Static, because OpenSSL keeps a pointer into it.
constexpr std::array<unsigned char, 9> kOwnProtocols{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// Chooses HTTP/1.1 for a client that offers it by ALPN (RFC 7301), and no protocol otherwise.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                   const unsigned char* offered, unsigned int offered_bytes, void*) {
  unsigned char* found = nullptr;
  if (::SSL_select_next_proto(&found, chosen_bytes, kOwnProtocols.data(), kOwnProtocols.size(),
                              offered, offered_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

std::unexpected<Error> FailTls(std::string_view what, const std::string& file,
                               const boost::system::error_code& error) {
  return Fail(Code::kInvalidArgument, what, " ", file, ": ", error.message());
}

}  // namespace

Result<std::unique_ptr<ssl::context>> MakeTlsContext(const TlsFiles& files) {
  try {
    auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
    boost::system::error_code error;
    // Without a callback OpenSSL would ask the terminal for the password of an encrypted key.
    (void)context->set_password_callback(
        [](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
    if (error) return FailTls("TLS key", files.key, error);
    (void)context->use_certificate_chain_file(files.certificate, error);
    if (error) return FailTls("TLS certificate", files.certificate, error);
    (void)context->use_private_key_file(files.key, ssl::context::pem, error);
    if (error) return FailTls("TLS key", files.key, error);
    SSL_CTX* const handle = context->native_handle();
    SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
    ::SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // An idle connection holds no buffers of OpenSSL.
    SSL_CTX_set_mode(handle, SSL_MODE_RELEASE_BUFFERS);
    ::SSL_CTX_set_alpn_select_cb(handle, ChooseProtocol, nullptr);
    return context;
  } catch (const boost::system::system_error& error) {
    return Fail(Code::kInternal, "TLS: ", error.code().message());
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace, "TLS: out of memory");
  }
}

// Every read carries a cancellation slot of its own, so CancelRead does not touch a write of
// another coroutine.

namespace {

namespace asio = boost::asio;

constexpr auto kStreamTuple = asio::as_tuple(asio::use_awaitable);

StreamSocket SocketOf(Loop& loop, int family, UniqueFd descriptor) {
  StreamSocket socket(loop);
  boost::system::error_code error;
  (void)socket.assign(asio::generic::stream_protocol(family, 0), descriptor.get(), error);
  if (!error) (void)descriptor.release();
  return socket;
}

bool IsEnd(const boost::system::error_code& error) {
  return error == asio::error::eof || error == asio::ssl::error::stream_truncated;
}

template <class Stream>
Await<std::optional<std::size_t>> ReadFrom(Stream& stream, std::span<char> into,
                                           asio::cancellation_slot slot) {
  const auto [error, byte_count] = co_await stream.async_read_some(
      asio::buffer(into.data(), into.size()), asio::bind_cancellation_slot(slot, kStreamTuple));
  if (!error) co_return byte_count;
  if (IsEnd(error)) co_return std::size_t{0};
  co_return std::nullopt;
}

template <class Stream>
Await<std::optional<std::size_t>> WriteTo(Stream& stream, std::string_view bytes) {
  const auto [error, byte_count] =
      co_await stream.async_write_some(asio::buffer(bytes.data(), bytes.size()), kStreamTuple);
  if (error) co_return std::nullopt;
  co_return byte_count;
}

void CloseSocket(StreamSocket& socket) {
  boost::system::error_code ignored;
  (void)socket.close(ignored);
}

bool SocketHasHungUp(StreamSocket& socket) {
  pollfd watched{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
  if (watched.fd < 0) return true;
  return ::poll(&watched, 1, 0) == 1 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(StreamSocket socket) : socket_(std::move(socket)) {}

  Await<bool> Handshake() override { co_return true; }
  Await<std::optional<std::size_t>> ReadSome(std::span<char> into) override {
    return ReadFrom(socket_, into, read_cancel_.slot());
  }
  Await<std::optional<std::size_t>> WriteSome(std::string_view bytes) override {
    return WriteTo(socket_, bytes);
  }
  void CancelRead() override { read_cancel_.emit(asio::cancellation_type::terminal); }
  Await<void> ShutDown() override {
    boost::system::error_code ignored;
    (void)socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    co_return;
  }
  bool is_readable_after_shutdown() const override { return true; }
  void Close() override { CloseSocket(socket_); }
  bool HasHungUp() override { return SocketHasHungUp(socket_); }

 private:
  StreamSocket socket_;
  asio::cancellation_signal read_cancel_;
};

class TlsStream final : public ByteStream {
 public:
  TlsStream(StreamSocket socket, std::shared_ptr<asio::ssl::context> context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}

  Await<bool> Handshake() override {
    const auto [error] =
        co_await stream_.async_handshake(asio::ssl::stream_base::server, kStreamTuple);
    co_return !error;
  }
  Await<std::optional<std::size_t>> ReadSome(std::span<char> into) override {
    return ReadFrom(stream_, into, read_cancel_.slot());
  }
  Await<std::optional<std::size_t>> WriteSome(std::string_view bytes) override {
    return WriteTo(stream_, bytes);
  }
  void CancelRead() override { read_cancel_.emit(asio::cancellation_type::terminal); }
  Await<void> ShutDown() override { (void)co_await stream_.async_shutdown(kStreamTuple); }
  bool is_readable_after_shutdown() const override { return false; }
  void Close() override { CloseSocket(stream_.next_layer()); }
  bool HasHungUp() override { return SocketHasHungUp(stream_.next_layer()); }

 private:
  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<StreamSocket> stream_;
  asio::cancellation_signal read_cancel_;
};

}  // namespace

std::unique_ptr<ByteStream> MakePlainStream(Loop& loop, int family, UniqueFd socket) {
  return std::make_unique<PlainStream>(SocketOf(loop, family, std::move(socket)));
}

std::unique_ptr<ByteStream> MakeTlsStream(Loop& loop, int family, UniqueFd socket,
                                          std::shared_ptr<asio::ssl::context> context) {
  return std::make_unique<TlsStream>(SocketOf(loop, family, std::move(socket)), std::move(context));
}

}  // namespace kvd::http
