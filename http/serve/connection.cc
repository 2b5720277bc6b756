#include "http/serve/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "http/loop/turn_watch.h"
#include "http/serve/reply_writer.h"

namespace kvd::http {

// The server coroutine of a connection, and what both coroutines share. connection_reader.cc has
// the reader.
//
// Only the server coroutine writes, except for "100 Continue", which the reader writes while no
// request is ahead. Only the reader reads. Both wait for each other by Signals and check the states
// anew after each wait.

namespace asio = boost::asio;

HttpConnection::HttpConnection(Loop& loop, std::shared_ptr<Site> site,
                               std::unique_ptr<ByteStream> stream, CountedConnection counted,
                               ConnectionPeer peer)
    : loop_(loop),
      site_(std::move(site)),
      stream_(std::move(stream)),
      counted_(std::move(counted)),
      peer_(std::move(peer)),
      arrived_(loop),
      taken_(loop),
      read_deadline_(loop, [this] { OnReadDeadline(); }),
      write_deadline_(loop, [this] { Break(); }) {
  counted_.Bind(*this);
}

HttpConnection::~HttpConnection() = default;

void HttpConnection::Start() {
  asio::co_spawn(
      loop_, [self = shared_from_this()]() -> Await<void> { co_await self->Run(); },
      asio::detached);
}

void HttpConnection::CloseSoon() {
  is_closing_ = true;
  if (is_answering_ || !queue_.empty()) return;
  takes_no_more_ = true;
  arrived_.Notify();
}

void HttpConnection::Break() {
  if (is_broken_) return;
  is_broken_ = true;
  takes_no_more_ = true;
  stream_->Close();
  BecomeGone();
  arrived_.Notify();
  taken_.Notify();
}

void HttpConnection::BecomeGone() {
  if (is_gone_) return;
  is_gone_ = true;
  const std::function<void()> call = std::exchange(on_gone_, nullptr);
  if (call) call();
}

void HttpConnection::OnGone(std::function<void()> call) {
  if (is_gone_ && call) {
    call();
  } else {
    on_gone_ = std::move(call);
  }
}

Await<bool> HttpConnection::Write(std::string_view bytes) {
  while (!bytes.empty() && !is_broken_) {
    write_deadline_.SetAfter(site_->limits.write_time);
    const std::optional<std::size_t> written = co_await stream_->WriteSome(bytes);
    write_deadline_.Clear();
    if (!written) {
      Break();
    } else {
      bytes.remove_prefix(*written);
    }
  }
  co_return !is_broken_;
}

Await<void> HttpConnection::Run() {
  try {
    read_deadline_.SetAfter(site_->limits.handshake_time);
    const bool is_shaken = co_await stream_->Handshake();
    read_deadline_.Clear();
    if (!is_shaken || is_broken_) co_return Break();
    has_reader_ = true;
    asio::co_spawn(
        loop_, [self = shared_from_this()]() -> Await<void> { co_await self->ReadRequests(); },
        asio::detached);
    co_await ServeRequests();
    co_await CloseInOrder();
  } catch (...) {
    // Out of memory. The connection ends; its reader sees that the stream is closed.
    Break();
  }
}

Await<void> HttpConnection::ServeRequests() {
  while (!is_broken_) {
    if (queue_.empty()) {
      if (takes_no_more_) co_return;
      SetReadDeadline();
      co_await arrived_.Wait();
      continue;
    }
    Incoming incoming = std::move(queue_.front());
    queue_.pop_front();
    is_answering_ = true;
    SetReadDeadline();
    taken_.Notify();
    const bool keeps_connection = co_await Answer(incoming);
    is_answering_ = false;
    taken_.Notify();
    if (!keeps_connection) co_return;
  }
}

Await<bool> HttpConnection::Answer(Incoming& incoming) {
  ReplyHeadOptions head_options;
  head_options.keeps_connection = incoming.keeps_connection;
  head_options.is_http_1_0 = incoming.is_http_1_0;
  head_options.idle_time =
      std::chrono::duration_cast<std::chrono::seconds>(site_->limits.idle_time);
  if (!incoming.reply || incoming.reply->status != 403) {
    head_options.cors_headers = site_->access.CorsHeaders(incoming.request.header("Origin"));
  }
  ReplyWriter writer(*this, std::move(head_options), incoming.is_head);
  if (incoming.reply) {
    (void)co_await writer.Send(std::move(*incoming.reply));
    co_return writer.keeps_connection();
  }
  bool has_failed = false;
  try {
    co_await asio::co_spawn(Labelled(loop_, &incoming.route->pattern),
                            incoming.route->handler(incoming.request, incoming.parts, writer),
                            asio::use_awaitable);
  } catch (...) {
    has_failed = true;
  }
  on_gone_ = nullptr;
  co_await writer.Finish(has_failed);
  co_return writer.keeps_connection();
}

// The reader drops the bytes that still arrive until the client closes its side. A socket that is
// closed with unread bytes would send a reset, which can destroy the last reply at the client.
Await<void> HttpConnection::CloseInOrder() {
  takes_no_more_ = true;
  queue_.clear();
  is_lingering_ = true;
  read_deadline_.SetAfter(site_->limits.linger_time);
  taken_.Notify();
  if (!is_broken_ && !is_gone_) {
    if (!stream_->is_readable_after_shutdown()) {
      // A client that still sends a body closes its side when it has read the reply.
      if (!has_cut_request_) stream_->CancelRead();
      while (has_reader_) co_await arrived_.Wait();
    }
    if (!is_broken_) co_await stream_->ShutDown();
    while (has_reader_ && !is_broken_) co_await arrived_.Wait();
  }
  read_deadline_.Clear();
  Break();
}

}  // namespace kvd::http
