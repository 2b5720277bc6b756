// RouteTest: a fixture that calls the handlers of routes, without a server, with a real daemon.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/answer/gateway.h"
#include "http/loop/turn_watch.h"
#include "http/serve/router.h"
#include "tests/http/value_at.h"
#include "text/value.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::http::test {

class RouteTest : public ::testing::Test {
 protected:
  // Starts a daemon with the model at `model_path`; empty: the bundled model. Tests change
  // settings_ before.
  void Start(const std::string& model_path = {});
  // Serves the daemon under further names, as if it were another one.
  void ServeAs(std::vector<std::string> names);
  void TearDown() override;

  // Runs the loop until the coroutine has ended. `label`: of its turns.
  template <class T>
  T Run(Await<T> work, const std::string* label = nullptr) {
    std::optional<T> result;
    boost::asio::co_spawn(Labelled(loop_, label), Keep(std::move(work), result),
                          boost::asio::detached);
    RunUntil([&] { return result.has_value(); });
    return std::move(*result);
  }
  void RunUntil(const std::function<bool()>& is_done);

  // The id that the daemon knows a tenant by; all zero for "".
  static std::array<std::uint8_t, 16> TenantIdOf(const std::string& name);

  // Calls the route of a method and a target ("/slots?model=a").
  GatewayReply Ask(std::string_view method, std::string_view target, std::string body = {});
  GatewayReply Get(std::string_view target) { return Ask("GET", target); }
  GatewayReply Post(std::string_view target, std::string body) {
    return Ask("POST", target, std::move(body));
  }
  // The body of a reply as a value; fails the test if the status is not 200.
  Value ValueOf(const GatewayReply& reply);
  // "STATUS MESSAGE" of an error reply.
  std::string ErrorOf(const GatewayReply& reply);

  TenantSession& tenant() { return **gateway_.Find("", ""); }

  Settings settings_;
  std::uint32_t pool_cells_ = 8192;  // of the daemon
  std::string caller_;               // the tenant of requests
  std::vector<Header> headers_;      // of requests
  Loop loop_;
  TurnWatch watch_{loop_};
  LoopWorkers workers_;
  std::unique_ptr<Jobs> jobs_ = std::move(*Jobs::Open(loop_, {}));
  Gateway gateway_{loop_, workers_, settings_, *jobs_};
  Router router_;
  std::optional<DaemonProcess> daemon_;

 private:
  template <class T>
  static Await<void> Keep(Await<T> work, std::optional<T>& result) {
    result.emplace(co_await std::move(work));
  }
};

}  // namespace kvd::http::test
