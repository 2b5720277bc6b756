#include "http/api/metrics.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/api/route_kinds.h"

namespace kvd::http {
namespace {

void AppendNumber(double number, std::string& text) {
  char digits[350];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed).ptr;
  text.append(digits, end);
}

void AppendHead(std::string_view name, std::string_view help, std::string_view type,
                std::string& text) {
  text.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

struct Series {
  std::string_view name;
  std::string_view help;
  double value = 0;
};

void AppendSeries(std::string_view type, const std::vector<Series>& all, std::string& text) {
  for (const Series& series : all) {
    AppendHead(series.name, series.help, type, text);
    text.append(series.name).append(" ");
    AppendNumber(series.value, text);
    text += '\n';
  }
}

double Seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}
double Number(std::uint64_t number) { return static_cast<double>(number); }

// The value of a label, with the escapes of the format.
std::string LabelText(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

struct DaemonSeries {
  std::string_view name;
  std::string_view help;
  std::string_view type;
  double (*value)(const wire::InfoReply& info);
};

double ReusedTokens(const wire::InfoReply& info) {
  double sum = 0;
  for (const std::uint64_t tokens : info.prefix_tokens_reused) sum += Number(tokens);
  return sum;
}

constexpr DaemonSeries kDaemonSeries[] = {
    {"kvd:pool_cells", "Cells of the daemon's pool", "gauge",
     [](const wire::InfoReply& info) { return Number(info.pool_cells); }},
    {"kvd:free_cells", "Cells in free blocks", "gauge",
     [](const wire::InfoReply& info) { return Number(info.free_cells); }},
    {"kvd:reclaimable_cells", "Cells of retained prefixes, which give way to new prompts", "gauge",
     [](const wire::InfoReply& info) { return Number(info.reclaimable_cells); }},
    {"kvd:live_sequences", "Sequences of all sessions", "gauge",
     [](const wire::InfoReply& info) { return Number(info.sequences_live); }},
    {"kvd:retained_sequences", "Retained sequences that may be evicted", "gauge",
     [](const wire::InfoReply& info) { return Number(info.sequences_retained); }},
    {"kvd:sessions", "Sessions of the daemon", "gauge",
     [](const wire::InfoReply& info) { return Number(info.sessions); }},
    {"kvd:steps_total", "Steps since the daemon's start", "counter",
     [](const wire::InfoReply& info) { return Number(info.steps); }},
    {"kvd:tokens_computed_total", "Tokens computed since the daemon's start", "counter",
     [](const wire::InfoReply& info) { return Number(info.tokens_computed); }},
    {"kvd:tokens_sampled_total", "Tokens sampled since the daemon's start", "counter",
     [](const wire::InfoReply& info) { return Number(info.tokens_sampled); }},
    {"kvd:requests_computing", "Requests of all sessions that compute", "gauge",
     [](const wire::InfoReply& info) { return Number(info.requests_computing); }},
    {"kvd:requests_waiting", "Requests of all sessions that have computed nothing yet", "gauge",
     [](const wire::InfoReply& info) { return Number(info.requests_waiting); }},
    {"kvd:requests_parked", "Requests of all sessions that wait for room in the pool", "gauge",
     [](const wire::InfoReply& info) { return Number(info.requests_parked); }},
    {"kvd:tokens_given_back_total", "Tokens that gave their cells back and were computed again",
     "counter", [](const wire::InfoReply& info) { return Number(info.tokens_given_back); }},
    {"kvd:prefix_prompts_total", "Prompts that could share a prefix", "counter",
     [](const wire::InfoReply& info) { return Number(info.prefix_prompts); }},
    {"kvd:prefix_hits_total", "Prompts that shared a prefix", "counter",
     [](const wire::InfoReply& info) { return Number(info.prefix_hits); }},
    {"kvd:prefix_tokens_reused_total", "Prompt tokens taken from shared prefixes", "counter",
     ReusedTokens},
    {"kvd:prefix_evictions_total", "Retained sequences evicted", "counter",
     [](const wire::InfoReply& info) { return Number(info.prefix_evictions); }},
};

double Rate(std::uint64_t tokens_before, std::uint64_t tokens_now,
            std::chrono::nanoseconds time_before, std::chrono::nanoseconds time_now) {
  const double seconds = Seconds(time_now - time_before);
  return seconds > 0 ? Number(tokens_now - tokens_before) / seconds : 0;
}

}  // namespace

void Add(const Metrics& metrics, Metrics& sum) {
  sum.prompt_tokens_computed += metrics.prompt_tokens_computed;
  sum.prompt_tokens_cached += metrics.prompt_tokens_cached;
  sum.prompt_time += metrics.prompt_time;
  sum.predicted_tokens += metrics.predicted_tokens;
  sum.predict_time += metrics.predict_time;
  sum.pieces += metrics.pieces;
  sum.busy_at_pieces += metrics.busy_at_pieces;
  sum.tokens_max = std::max(sum.tokens_max, metrics.tokens_max);
}

RecentRates RatesBetween(const Metrics& before, const Metrics& now) {
  return {.prompt_tokens_per_s = Rate(before.prompt_tokens_computed, now.prompt_tokens_computed,
                                      before.prompt_time, now.prompt_time),
          .predicted_tokens_per_s = Rate(before.predicted_tokens, now.predicted_tokens,
                                         before.predict_time, now.predict_time)};
}

std::string MetricsText(const GatewayCounts& counts, const RecentRates& rates,
                        const std::vector<DaemonCounts>& daemons) {
  const Metrics& metrics = counts.metrics;
  std::string text;
  AppendSeries(
      "counter",
      {{"llamacpp:prompt_tokens_total",
        "Number of prompt tokens processed, excluding cached tokens",
        Number(metrics.prompt_tokens_computed)},
       {"llamacpp:prompt_tokens_cached_total", "Number of prompt tokens reused from the cache",
        Number(metrics.prompt_tokens_cached)},
       {"llamacpp:prompt_seconds_total", "Total time spent processing prompts",
        Seconds(metrics.prompt_time)},
       {"llamacpp:tokens_predicted_total", "Number of generation tokens processed",
        Number(metrics.predicted_tokens)},
       {"llamacpp:tokens_predicted_seconds_total", "Total time spent generating tokens",
        Seconds(metrics.predict_time)},
       {"llamacpp:n_decode_total", "Total number of answers to steps of the daemon",
        Number(metrics.pieces)},
       {"llamacpp:n_tokens_max", "Largest observed sequence length (prompt + generation)",
        Number(metrics.tokens_max)},
       {"llamacpp:spec_decode_num_draft_tokens_total", "Speculative: not supported by kvd", 0},
       {"llamacpp:spec_decode_num_accepted_tokens_total", "Speculative: not supported by kvd", 0},
       {"llamacpp:spec_decode_num_drafts_total", "Speculative: not supported by kvd", 0}},
      text);
  const double busy_per_piece =
      Number(metrics.busy_at_pieces) / std::max(Number(metrics.pieces), 1.0);
  AppendSeries(
      "gauge",
      {{"llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s",
        rates.prompt_tokens_per_s},
       {"llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s",
        rates.predicted_tokens_per_s},
       {"llamacpp:requests_processing", "Number of requests processing", Number(counts.busy)},
       {"llamacpp:requests_deferred", "Number of requests deferred", Number(counts.waiting)},
       {"llamacpp:n_busy_slots_per_decode", "Average number of busy slots per answer to a step",
        busy_per_piece}},
      text);
  if (counts.has_turns) {
    AppendSeries("counter",
                 {{"kvd:loop_long_turns_total",
                   "Turns of the gateway's event loop of more than 20 ms of CPU time",
                   Number(counts.long_turns)}},
                 text);
    AppendSeries("gauge",
                 {{"kvd:loop_longest_turn_seconds", "CPU time of the longest of them",
                   Seconds(counts.longest_turn)}},
                 text);
  }
  for (const DaemonSeries& series : kDaemonSeries) {
    if (daemons.empty()) break;
    AppendHead(series.name, series.help, series.type, text);
    for (const DaemonCounts& daemon : daemons) {
      text.append(series.name).append("{model=\"").append(LabelText(daemon.model)).append("\"} ");
      AppendNumber(series.value(daemon.info), text);
      text += '\n';
    }
  }
  return text;
}

// The route of Prometheus: GET /metrics, with --metrics.

namespace {

constexpr char kNoMetrics[] =
    "This server does not support metrics endpoint. Start it with `--metrics`";

struct Scrapes {
  std::time_t started_unix_s = 0;
  std::map<std::string, Metrics> last;  // by tenant: of the tenant's last GET /metrics
};

// A tenant sees its own counts for the models that it may use. What concerns all of them (the
// pools, the event loop) is shown to an operator, and without --tenants.
Await<Result<GatewayReply>> ShowMetrics(RouteCall call, Scrapes& scrapes) {
  if (!call.gateway.settings().serves_metrics) co_return Fail(Code::kUnsupported, kNoMetrics);
  const std::vector<Backend*> backends = call.gateway.BackendsOf(call.request.tenant);
  std::vector<DaemonCounts> daemons;
  const bool sees_all = call.gateway.SeesAll(call.request.tenant);
  for (const Backend* const backend : backends) {
    if (!sees_all) break;
    KVD_CO_TRY(TenantSession* const tenant,
               call.gateway.Find(call.request.tenant, backend->model->id()));
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
  GatewayReply reply;
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
