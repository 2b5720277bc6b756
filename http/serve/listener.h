// HttpListener: the HTTP server: it accepts connections and serves their requests by a Router.
//
//   KVD_TRY(const ListenAddress address, ResolveListenAddress(host, port));
//   KVD_CHECK_OK(CheckExposure(address, has_keys, no_auth));
//   KVD_TRY(auto listener, HttpListener::Create(loop, {.address = address}, router, access));
//   listener->Start();
//   loop.run();                                   // until something calls:
//   co_await listener->Stop(std::chrono::seconds(5));
//
// The loop's thread uses an HttpListener. The loop, the router and the access must outlive it and
// all connections; after Stop there are none.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/loop/await.h"
#include "http/serve/access.h"
#include "http/serve/byte_stream.h"
#include "http/serve/connection.h"
#include "http/serve/ip_address.h"
#include "http/serve/limits.h"
#include "http/serve/listening_socket.h"
#include "http/serve/peer_counts.h"
#include "http/serve/router.h"

namespace kvd::http {

struct ListenOptions {
  ListenAddress address;
  std::optional<TlsFiles> tls = std::nullopt;
  ServeLimits limits = {};
  std::vector<AddressRange> trusted_proxies = {};
};

class HttpListener {
 public:
  // Listens, but accepts nothing before Start. Raises the process's limit of descriptors as far as
  // the connections need it and the system allows it. Errors: those of ListeningSocket::Open and
  // MakeTlsContext.
  static Result<std::unique_ptr<HttpListener>> Create(Loop& loop, const ListenOptions& options,
                                                      const Router& router,
                                                      const AccessRules& access);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  std::uint16_t port() const { return port_; }
  const std::string& url() const { return url_; }
  const ConnectionTable& connections() const { return *table_; }
  const HeldBodies& bodies() const { return *bodies_; }

  void Start();
  // Stops accepting, removes a unix socket's file, closes connections without requests at once and
  // the others after their reply; after `grace` it breaks those that are left. Returns when there
  // are no connections. Handlers see a broken connection as a client that is gone.
  Await<void> Stop(std::chrono::steady_clock::duration grace);

 private:
  HttpListener(Loop& loop, const ListenOptions& options, const Router& router,
               const AccessRules& access, ListeningSocket socket,
               std::unique_ptr<boost::asio::ssl::context> tls);

  struct Accepting;
  static Await<void> AcceptConnections(std::shared_ptr<Accepting> accepting);

  Loop& loop_;
  std::shared_ptr<ConnectionTable> table_;
  std::shared_ptr<HeldBodies> bodies_;
  std::uint16_t port_ = 0;
  std::string url_;
  std::shared_ptr<Accepting> accepting_;  // null after Stop
};

}  // namespace kvd::http
