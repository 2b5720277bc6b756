// ToyServer: an HttpListener with toy handlers, on a thread of its own.
//
//   GET    /health        public: {"status":"ok"}
//   POST   /open          public: the body
//   POST   /echo          the body
//   GET    /echo          method, path, query, key and tenant, a line each
//   GET    /part/{}       the part;   GET /rest/{*}: the parts
//   GET    /stream        three pieces, "one", "two", "three"
//   GET    /wait          waits until the client is gone, or until Release
//   GET    /wait-stream   the same after it has begun a stream
//   GET    /flood         pieces of 64 KiB until the client is gone
//   GET    /big           4 MiB
//   GET    /throw         throws std::bad_alloc;    GET /throw-late: after it has begun a stream
//   GET    /silent        returns without a reply;  GET /half: without the end of a stream
//   GET    /split         a reply with control characters in a header
//   GET    /nothing       204
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/serve/access.h"
#include "http/serve/limits.h"
#include "http/serve/listener.h"

namespace kvd::http::test {

struct ToyOptions {
  std::string host = "127.0.0.1";
  AccessOptions access = {};
  ServeLimits limits = {};
  std::optional<TlsFiles> tls = std::nullopt;
  std::vector<std::string> trusted_proxies = {};
};

class ToyServer {
 public:
  explicit ToyServer(const ToyOptions& options = {});
  ~ToyServer();
  ToyServer(const ToyServer&) = delete;
  ToyServer& operator=(const ToyServer&) = delete;

  std::uint16_t port() const { return port_; }
  const std::string& url() const { return url_; }

  // Ends the handlers of /wait and /wait-stream.
  void Release();
  // Stops the server, waits until it has stopped, and checks that it counts nothing any more.
  void Stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));
  std::size_t connection_count();
  std::size_t held_body_bytes();

  std::atomic<int> started_count{0};  // handlers of /wait, /wait-stream and /flood that have begun
  std::atomic<int> ended_count{0};    // and those that have ended
  std::atomic<int> gone_count{0};     // calls of OnGone

 private:
  struct State;
  void AddRoutes();

  std::unique_ptr<State> state_;
  std::uint16_t port_ = 0;
  std::string url_;
  std::thread thread_;
};

// Waits until `condition` holds; fails the test after a minute.
template <class Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace kvd::http::test
