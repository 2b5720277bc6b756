// Metrics: what the answers of one tenant of one daemon have counted since the gateway's start, for
// GET /metrics and GET /slots. Used by the event loop's thread alone.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvd::http {

struct Metrics {
  std::uint64_t prompt_tokens_computed = 0;
  std::uint64_t prompt_tokens_cached = 0;
  std::chrono::nanoseconds prompt_time{0};
  std::uint64_t predicted_tokens = 0;
  std::chrono::nanoseconds predict_time{0};
  std::uint64_t pieces = 0;          // answers to steps
  std::uint64_t busy_at_pieces = 0;  // busy slots, summed over the pieces
  std::uint64_t tokens_max = 0;      // the longest sequence
};

}  // namespace kvd::http
