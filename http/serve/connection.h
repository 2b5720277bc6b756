// A connection of one client, and what all connections of a server share.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/loop/await.h"
#include "http/serve/access.h"
#include "http/serve/byte_stream.h"
#include "http/serve/ip_address.h"
#include "http/serve/limits.h"
#include "http/serve/peer_counts.h"
#include "http/serve/request_parser.h"
#include "http/serve/router.h"

namespace kvd::http {

// Site: what all connections of a server share. The listener and the connections own it together;
// the loop's thread uses it.
struct Site {
  const Router& router;
  const AccessRules& access;
  ServeLimits limits;
  // The proxies whose X-Forwarded-For names the address of a request.
  std::vector<AddressRange> trusted_proxies;
  std::shared_ptr<HeldBodies> bodies;
};

// Connection: one client's connection, its requests and the replies to them.
//
// Two coroutines own a connection. The reader parses requests into a short queue and notices when
// the client hangs up, also while a handler runs. The server coroutine takes the requests from the
// queue one after the other, so replies are in order and no two handlers of a connection run at the
// same time. The connection lives until both coroutines have ended.
//
// When a client closes its side (FIN), the connection cannot know whether the client still reads.
// It counts as gone: OnGone is called, streams end, handlers stop their work. A whole reply is
// still written, so a client that sends a request, closes its side and reads ("nc -N") gets the
// replies that need no long work, such as /health.

// The peer of a connection.
struct ConnectionPeer {
  std::string address_key;        // IpAddress::limit_key(); empty: a unix socket
  bool is_trusted_proxy = false;  // its X-Forwarded-For names the addresses of its requests
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(Loop& loop, std::shared_ptr<Site> site, std::unique_ptr<ByteStream> stream,
                 CountedConnection counted, ConnectionPeer peer);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Starts the coroutines, which own the connection from now on.
  void Start();
  // Closes the connection after the reply that is being computed; at once if there is none.
  void CloseSoon();
  // Closes the connection at once. Coroutines that read or write are woken.
  void Break();

  // For the ReplyWriter.

  // Writes all bytes. Returns false if the client is gone or takes no bytes for write_time.
  Await<bool> Write(std::string_view bytes);
  bool is_gone() const { return is_gone_; }
  bool is_closing() const { return is_closing_; }
  // As Responder::OnGone.
  void OnGone(std::function<void()> call);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A request that waits for its handler.
  struct Incoming {
    Request request;
    BodyShare body_share;
    const Route* route = nullptr;
    std::vector<std::string> parts = {};
    std::optional<GatewayReply> reply =
        {};  // instead of the handler's: a refusal, or the reply to OPTIONS
    bool is_head = false;
    bool is_http_1_0 = false;
    bool keeps_connection = false;
  };

  // The server coroutine.
  Await<void> Run();
  Await<void> ServeRequests();
  Await<bool> Answer(Incoming& incoming);
  Await<void> CloseInOrder();

  // The reader.
  Await<void> ReadRequests();
  Await<std::optional<std::size_t>> ReadMore();
  Await<void> ParseBuffer();
  // Returns whether the body of the request is to be read.
  Await<bool> AdmitHead();
  void Admit(Incoming& incoming);
  // The address for which a request counts, as IpAddress::limit_key().
  std::string AddressKeyOf(const Request& request) const;
  // Returns whether the body so far keeps to the limits. If not, the reply is in the queue.
  bool KeepsBodyLimits();
  Await<bool> SendContinue();
  // Waits until at most `request_count` requests are ahead of the next one, with or without the one
  // that is being answered. Returns false if no further request is to be read.
  Await<bool> WaitUntilAhead(std::size_t request_count, bool with_answer);
  std::size_t RequestsAhead(bool with_answer) const;
  void Enqueue(bool keeps_connection);
  void EnqueueError(const RequestError& error);
  std::string_view unparsed() const { return std::string_view(buffer_).substr(parsed_bytes_); }

  void BeginBodyWindow();
  bool HasFilledBodyWindow() const;
  void SetReadDeadline();
  void OnReadDeadline();
  void BecomeGone();

  Loop& loop_;
  const std::shared_ptr<Site> site_;
  const std::unique_ptr<ByteStream> stream_;
  CountedConnection counted_;
  const ConnectionPeer peer_;

  std::string buffer_;  // bytes that were read; the first parsed_bytes_ are parsed
  std::size_t parsed_bytes_ = 0;
  std::optional<RequestParser> parser_;  // of the request that is being read
  std::optional<Incoming> next_;         // this request, after its head
  TimePoint began_at_{};                 // its head, or a window of its body
  std::size_t window_body_bytes_ = 0;    // the body's bytes at the beginning of the window
  std::deque<Incoming> queue_;
  Signal arrived_;  // wakes the server coroutine: the queue or a state has changed
  Signal taken_;    // wakes the reader: a request has been taken or answered

  bool is_answering_ = false;
  bool takes_no_more_ = false;  // no further request is parsed; bytes that arrive are dropped
  bool waits_alone_ = false;  // the last request in the queue keeps the next one from being parsed
  bool has_cut_request_ = false;  // the last request was not read to its end
  bool is_closing_ = false;       // the next reply is the last one
  bool has_reader_ = false;
  bool is_waiting_ = false;    // the reader waits for the requests ahead
  bool is_lingering_ = false;  // all replies are written
  bool is_gone_ = false;
  bool is_broken_ = false;
  std::function<void()> on_gone_;

  Deadline read_deadline_;
  Deadline write_deadline_;
};

}  // namespace kvd::http
