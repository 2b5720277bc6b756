// The coroutine that accepts owns its state together with the HttpListener, so an HttpListener may
// end while the coroutine waits.
#include "http/serve/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "base/unique_fd.h"
#include "http/loop/await.h"
#include "http/serve/byte_stream.h"
#include "http/serve/connection.h"
#include "http/serve/reply_writer.h"
#include "http/serve/request.h"

namespace kvd::http {

namespace asio = boost::asio;
namespace {

constexpr auto kAcceptTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kAcceptsAtOnce = 64;
constexpr rlim_t kOtherDescriptors = 256;  // of the process, beside those of connections

void RaiseDescriptorLimit(const ServeLimits& limits) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted =
      rlim_t{limits.connection_count_max} + limits.refused_count_max + kOtherDescriptors;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// Sends small packets at once, and notices a peer whose machine has vanished.
void SetTcpOptions(int socket) {
  const auto set = [socket](int level, int name, int value) {
    (void)::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

ConnectionPeer PeerOf(const sockaddr_storage& peer,
                      const std::vector<AddressRange>& trusted_proxies) {
  const std::optional<IpAddress> address = IpAddress::Of(peer);
  if (!address) return {};
  return {.address_key = address->limit_key(),
          .is_trusted_proxy = std::ranges::any_of(trusted_proxies, [&](const AddressRange& range) {
            return range.Contains(*address);
          })};
}

// Writes a 503 and waits until the client has read it. Never reads the request.
Await<void> Refuse(Loop& loop, std::unique_ptr<ByteStream> stream, std::string message,
                   std::chrono::milliseconds linger_time, std::shared_ptr<std::size_t> count) {
  ++*count;
  Deadline deadline(loop, [&stream] { stream->Close(); });
  deadline.SetAfter(linger_time);
  const GatewayReply reply = ErrorReply(503, message);
  ReplyHeadOptions head_options;
  head_options.keeps_connection = false;
  const std::string text = WriteReplyHead(reply, head_options) + reply.body;
  const std::optional<std::size_t> written = co_await stream->WriteSome(text);
  if (written) {
    co_await stream->ShutDown();
    std::array<char, 1024> dropped;
    std::optional<std::size_t> byte_count;
    do {
      byte_count = co_await stream->ReadSome(dropped);
    } while (byte_count && *byte_count > 0);
  }
  stream->Close();
  --*count;
}

}  // namespace

struct HttpListener::Accepting {
  Accepting(Loop& a_loop, std::shared_ptr<Site> a_site, std::shared_ptr<ConnectionTable> a_table,
            ListeningSocket a_socket, std::unique_ptr<asio::ssl::context> a_tls)
      : loop(a_loop),
        site(std::move(a_site)),
        table(std::move(a_table)),
        tls(std::move(a_tls)),
        socket(std::move(a_socket)),
        watched(loop, socket->get()),
        pause(loop) {}
  ~Accepting() { Stop(); }

  // Closes the listening socket, which removes a unix socket's file.
  void Stop();

  // Accepts connections that wait. Returns false if the process lacks descriptors or memory.
  bool AcceptSome();
  bool Admit(UniqueFd client, const sockaddr_storage& peer);

  Loop& loop;
  std::shared_ptr<Site> site;
  std::shared_ptr<ConnectionTable> table;
  std::shared_ptr<asio::ssl::context> tls;  // null: none
  std::optional<ListeningSocket> socket;    // none: stopped
  asio::posix::stream_descriptor watched;   // the descriptor of `socket`, which owns it
  asio::steady_timer pause;
  std::shared_ptr<std::size_t> refused_count = std::make_shared<std::size_t>(0);
};

Result<std::unique_ptr<HttpListener>> HttpListener::Create(Loop& loop, const ListenOptions& options,
                                                           const Router& router,
                                                           const AccessRules& access) {
  std::unique_ptr<asio::ssl::context> tls;
  if (options.tls) {
    KVD_TRY(tls, MakeTlsContext(*options.tls));
  }
  KVD_TRY(ListeningSocket socket, ListeningSocket::Open(options.address));
  RaiseDescriptorLimit(options.limits);
  return std::unique_ptr<HttpListener>(
      new HttpListener(loop, options, router, access, std::move(socket), std::move(tls)));
}

HttpListener::HttpListener(Loop& loop, const ListenOptions& options, const Router& router,
                           const AccessRules& access, ListeningSocket socket,
                           std::unique_ptr<asio::ssl::context> tls)
    : loop_(loop),
      table_(std::make_shared<ConnectionTable>(loop, options.limits)),
      bodies_(std::make_shared<HeldBodies>(options.limits)),
      port_(socket.port()),
      url_(UrlOf(options.address, port_, tls != nullptr)),
      accepting_(std::make_shared<Accepting>(
          loop,
          std::make_shared<Site>(
              Site{router, access, options.limits, options.trusted_proxies, bodies_}),
          table_, std::move(socket), std::move(tls))) {}

HttpListener::~HttpListener() {
  if (accepting_) accepting_->Stop();
}

void HttpListener::Start() { asio::co_spawn(loop_, AcceptConnections(accepting_), asio::detached); }

Await<void> HttpListener::AcceptConnections(std::shared_ptr<Accepting> accepting) {
  bool has_resources = true;
  while (accepting->socket) {
    try {
      if (!has_resources) {
        // The connection that waits would wake this coroutine again at once.
        accepting->pause.expires_after(accepting->site->limits.accept_pause);
        co_await accepting->pause.async_wait(kAcceptTuple);
      }
      const auto [error] = co_await accepting->watched.async_wait(
          asio::posix::stream_descriptor::wait_read, kAcceptTuple);
      if (error || !accepting->socket) co_return;
      has_resources = accepting->AcceptSome();
    } catch (...) {
      has_resources = false;
    }
  }
}

void HttpListener::Accepting::Stop() {
  if (!socket) return;
  (void)watched.release();  // cancels the wait; the socket closes the descriptor
  pause.cancel();
  socket.reset();
}

bool HttpListener::Accepting::AcceptSome() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof peer;
    UniqueFd client(::accept4(socket->get(), reinterpret_cast<sockaddr*>(&peer), &peer_bytes,
                              SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!client) {
      return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    }
    if (!Admit(std::move(client), peer)) return false;
  }
  return true;
}

bool HttpListener::Accepting::Admit(UniqueFd client, const sockaddr_storage& peer) {
  const int family = peer.ss_family == AF_UNSPEC ? AF_UNIX : peer.ss_family;
  if (family != AF_UNIX) SetTcpOptions(client.get());
  try {
    ConnectionPeer connection_peer = PeerOf(peer, site->trusted_proxies);
    // The connections of a proxy are those of many clients.
    std::string limited_peer =
        connection_peer.is_trusted_proxy ? std::string() : connection_peer.address_key;
    std::string refusal = table->RefusalOf(limited_peer);
    if (!refusal.empty()) {
      // Through TLS a reply would need a handshake, which costs more than a request.
      if (tls || *refused_count >= site->limits.refused_count_max) return true;
      asio::co_spawn(loop,
                     Refuse(loop, MakePlainStream(loop, family, std::move(client)),
                            std::move(refusal), site->limits.linger_time, refused_count),
                     asio::detached);
      return true;
    }
    CountedConnection counted = table->Enter(std::move(limited_peer));
    std::unique_ptr<ByteStream> stream = tls ? MakeTlsStream(loop, family, std::move(client), tls)
                                             : MakePlainStream(loop, family, std::move(client));
    std::make_shared<HttpConnection>(loop, site, std::move(stream), std::move(counted),
                                     std::move(connection_peer))
        ->Start();
    return true;
  } catch (...) {
    return false;  // out of memory; the client is closed
  }
}

Await<void> HttpListener::Stop(std::chrono::steady_clock::duration grace) {
  if (accepting_) accepting_->Stop();
  accepting_.reset();
  table_->ForEach([](HttpConnection& connection) { connection.CloseSoon(); });
  const auto end = std::chrono::steady_clock::now() + grace;
  while (table_->connection_count() > 0) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) break;
    (void)co_await table_->left().WaitFor(end - now);
  }
  table_->ForEach([](HttpConnection& connection) { connection.Break(); });
  while (table_->connection_count() > 0) co_await table_->left().Wait();
}

}  // namespace kvd::http
