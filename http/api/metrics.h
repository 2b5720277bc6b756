// GET /metrics: its text, and its route.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "http/answer/tenant_session.h"
#include "shm/verb_table.h"

namespace kvd::http {

// The text of GET /metrics, in Prometheus' format 0.0.4: llama-server's names, then kvd's own.

// The counters of all daemons of the gateway, together, and what it does now.
struct GatewayCounts {
  Metrics metrics;
  std::uint64_t busy = 0;     // answers in slots
  std::uint64_t waiting = 0;  // requests that wait for a slot
  bool has_turns = false;     // what follows is known
  std::uint64_t long_turns = 0;
  std::chrono::nanoseconds longest_turn{0};  // of the long ones
};

void Add(const Metrics& metrics, Metrics& sum);

// Averages over the time between two calls of GET /metrics.
struct RecentRates {
  double prompt_tokens_per_s = 0;
  double predicted_tokens_per_s = 0;
};
// The rates between `before` and `now`; 0: nothing was counted.
RecentRates RatesBetween(const Metrics& before, const Metrics& now);

// What a daemon reports about itself.
struct DaemonCounts {
  std::string model;
  wire::InfoReply info{};
};

std::string MetricsText(const GatewayCounts& counts, const RecentRates& rates,
                        const std::vector<DaemonCounts>& daemons);

}  // namespace kvd::http
