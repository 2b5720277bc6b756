// Gateway: the daemons that this kvd-http serves, by the names that requests give as "model", and
// the tenants of each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/answer/jobs.h"
#include "http/answer/response_store.h"
#include "http/answer/slots.h"
#include "http/answer/tenant_session.h"
#include "http/backend/tenants.h"
#include "http/loop/await.h"
#include "http/loop/loop_workers.h"
#include "http/loop/turn_watch.h"
#include "http/options/settings.h"

namespace kvd::http {

// One daemon.
struct Backend {
  std::string daemon;  // its name
  std::unique_ptr<ServedModel> model;
  std::map<std::string, std::unique_ptr<TenantSession>>
      tenants;  // by name; "" without tenants' keys
  // Where the slots of this daemon's tenants are noted: a path to which a name is appended; empty:
  // nowhere.
  std::string slots_prefix;
  std::string SlotsPath(const std::string& tenant) const;
  // Opens a session for a tenant.
  std::function<Result<std::shared_ptr<DaemonSession>>(const std::string& tenant)> open;
};

class Gateway {
 public:
  Gateway(Loop& loop, LoopWorkers& workers, const Settings& settings, Jobs& jobs)
      : loop_(loop), workers_(workers), settings_(settings), jobs_(jobs) {}

  const Settings& settings() const { return settings_; }
  Loop& loop() { return loop_; }
  LoopWorkers& workers() { return workers_; }
  Jobs& jobs() { return jobs_; }
  ResponseStore& responses() { return *responses_; }
  // REQUIRES: before requests are served.
  void Keep(std::unique_ptr<ResponseStore> responses) { responses_ = std::move(responses); }
  const std::vector<std::unique_ptr<Backend>>& backends() const { return backends_; }
  void Add(std::unique_ptr<Backend> backend) { backends_.push_back(std::move(backend)); }

  // How the record of a tenant is found. Without it, every tenant may use every model. REQUIRES:
  // `find` outlives the Gateway; before requests are served.
  using FindRecord = std::function<const TenantRecord*(const std::string& tenant)>;
  void UseRecords(FindRecord find) { find_record_ = std::move(find); }

  // Whose turns GET /metrics shows. REQUIRES: `watch` outlives the Gateway.
  void Watch(const TurnWatch& watch) { watch_ = &watch; }
  // Null: the turns are not measured.
  const TurnWatch* watch() const { return watch_; }
  // The daemons whose models the tenant may use.
  std::vector<Backend*> BackendsOf(const std::string& tenant) const;
  // The limit of the bytes of a tenant's snapshots of stored responses.
  std::uint64_t ResponseBytesOf(const std::string& tenant) const;
  // Where the tenant's slot files are, and their limits.
  SlotFolder SlotFolderOf(const std::string& tenant) const;
  // The tenant sees what all tenants do: there are no others, or it is an operator.
  bool SeesAll(const std::string& tenant) const;
  // The tenant of a request for a model. A name that no daemon has means the first daemon if it is
  // the only one, as in llama-server. A model that the tenant may not use is not found. Errors:
  // kNotFound, with the names of the models that the tenant may use.
  Result<TenantSession*> Find(const std::string& tenant, std::string_view model_name);

 private:
  Loop& loop_;
  LoopWorkers& workers_;
  const Settings& settings_;
  Jobs& jobs_;
  FindRecord find_record_;
  const TurnWatch* watch_ = nullptr;
  std::unique_ptr<ResponseStore> responses_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

}  // namespace kvd::http
