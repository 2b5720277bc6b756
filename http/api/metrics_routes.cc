#include "http/api/metrics_routes.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http/api/metrics_text.h"
#include "http/api/plain_route.h"

namespace kvd::http {
namespace {

constexpr char kNoMetrics[] =
    "This server does not support metrics endpoint. Start it with `--metrics`";

struct Scrapes {
  std::time_t started_unix_s = 0;
  std::map<std::string, Metrics> last;  // by tenant: of the tenant's last GET /metrics
};

// A tenant sees its own counts for the models that it may use. What concerns all of them (the
// pools, the event loop) is shown to an operator, and without --tenants.
Await<Result<Reply>> ShowMetrics(RouteCall call, Scrapes& scrapes) {
  if (!call.gateway.settings().serves_metrics) co_return Fail(Code::kUnsupported, kNoMetrics);
  const std::vector<Backend*> backends = call.gateway.BackendsOf(call.request.tenant);
  std::vector<DaemonCounts> daemons;
  const bool sees_all = call.gateway.SeesAll(call.request.tenant);
  for (const Backend* const backend : backends) {
    if (!sees_all) break;
    KVD_CO_TRY(Tenant* const tenant, call.gateway.Find(call.request.tenant, backend->model->id()));
    const auto session = tenant->session();
    if (!session) continue;  // a daemon that is gone reports nothing
    const auto info = co_await (*session)->Info();
    if (info) daemons.push_back({.model = backend->model->id(), .info = *info});
  }
  GatewayCounts counts;
  for (const Backend* const backend : backends) {
    for (const auto& [name, tenant] : backend->tenants) {
      if (!sees_all && name != call.request.tenant) continue;
      Add(std::as_const(*tenant).metrics(), counts.metrics);
      counts.busy += tenant->slots().busy_count();
      counts.waiting += tenant->slots().waiting_count();
    }
  }
  if (sees_all && call.gateway.watch() != nullptr) {
    for (const auto& [label, turns] : call.gateway.watch()->long_turns()) {
      counts.long_turns += turns.count;
      counts.longest_turn = std::max(counts.longest_turn, turns.longest);
    }
    counts.has_turns = true;
  }
  Metrics& last = scrapes.last[call.request.tenant];
  const RecentRates rates = RatesBetween(last, counts.metrics);
  last = counts.metrics;
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4";
  reply.headers.push_back({"Process-Start-Time-Unix", std::to_string(scrapes.started_unix_s)});
  reply.body = MetricsText(counts, rates, daemons);
  co_return reply;
}

}  // namespace

void AddMetricsRoutes(Gateway& gateway, Router& router) {
  const auto scrapes = std::make_shared<Scrapes>();
  scrapes->started_unix_s = std::time(nullptr);
  AddPlainRoutes(gateway, router, "GET", {"/metrics"},
                 [scrapes](RouteCall call) { return ShowMetrics(call, *scrapes); });
}

}  // namespace kvd::http
