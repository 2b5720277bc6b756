// Program: a running kvd-http: its listener, its daemons, and its end.
//
// The listener accepts requests before the daemons serve; until then every request but OPTIONS gets
// 503 "Loading model", as from llama-server. One thread runs the loop, and uses a Program.
#pragma once

#include <boost/asio/signal_set.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/answer/gateway.h"
#include "http/backend/daemon_process.h"
#include "http/backend/gateway_directory.h"
#include "http/backend/tenants.h"
#include "http/loop/await.h"
#include "http/loop/loop_workers.h"
#include "http/loop/turn_watch.h"
#include "http/options/settings.h"
#include "http/serve/access.h"
#include "http/serve/listener.h"
#include "http/serve/router.h"

namespace kvd::http {

class Program {
 public:
  // Opens the directory, reads the tenants, and listens. `settings.model_path`: an existing file or
  // empty. Errors: those of GatewayDirectory::Open, TenantTable::Read, ResolveListenAddress,
  // CheckExposure, AddressRange::Read and HttpListener::Create.
  static Result<std::unique_ptr<Program>> Create(Settings settings);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Serves until SIGTERM, SIGINT, SIGHUP without --tenants, or an error of the start, and returns
  // the exit status. The caller ends the process without running destructors: coroutines that still
  // wait would otherwise be destroyed after what they use.
  int Run();

 private:
  // One daemon of the gateway.
  struct Served {
    std::string daemon;                   // its name
    std::vector<std::string> names = {};  // of the model in requests
    bool is_own = false;                  // kept by keeper_
  };

  explicit Program(Settings settings);

  Status OpenFiles();
  Status Listen();
  void AddGuarded(const Router& routes);
  std::vector<Served> WantedDaemons() const;
  AccessOptions MakeAccessOptions(const ListenAddress& address) const;

  Await<void> StartBackends();
  // Takes the sessions, slots and streams of a killed kvd-http up again.
  Await<void> Recover();
  Await<Status> StartAll();
  // Finds or starts the daemon of the settings' model, and returns its name.
  Await<Result<std::string>> StartOwn();
  Await<Status> AddBackend(Served served);
  // A session for the model's description. Waits for an own daemon that is started again.
  Await<Result<std::shared_ptr<DaemonSession>>> OpenFirstSession(Served served);
  Result<std::shared_ptr<DaemonSession>> OpenSession(const Served& served,
                                                     const std::string& tenant_name);
  Await<void> WatchSignals();
  Await<void> Stop(int status);
  void ReadTenantsAgain();
  Status WriteLimits() const;

  Settings settings_;
  Loop loop_;
  TurnWatch watch_{loop_};
  LoopWorkers workers_;
  std::unique_ptr<GatewayDirectory> directory_;
  std::shared_ptr<const TenantTable> tenants_;  // null: without --tenants
  std::unique_ptr<SessionStore> sessions_;
  std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<Gateway> gateway_;
  std::shared_ptr<DaemonKeeper> keeper_;  // null: kvd-http has started no daemon
  Router router_;
  std::unique_ptr<AccessRules> access_;
  std::unique_ptr<HttpListener> listener_;
  boost::asio::signal_set signals_;
  bool is_ready_ = false;
  bool is_stopping_ = false;
  int status_ = 0;
};

}  // namespace kvd::http
