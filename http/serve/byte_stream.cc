// Every read carries a cancellation slot of its own, so CancelRead does not touch a write of
// another coroutine.
#include "http/serve/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace kvd::http {
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
