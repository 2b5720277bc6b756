// Job: one reply that continues when its client is gone (answer/jobs.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "http/answer/job_shares.h"
#include "http/answer/stream_buffer.h"

namespace kvd::http {

struct Job {
  std::string id;  // chosen by the client, or of a response; unique for its tenant
  std::string tenant;
  std::string conversation;  // another id by which it is found; empty: none
  std::int64_t started_unix_s = 0;
  std::int64_t completed_unix_s = 0;  // 0: not yet
  std::shared_ptr<JobShare> share;
  std::shared_ptr<StreamBuffer> buffer;
  std::chrono::steady_clock::time_point over_at{};
};

}  // namespace kvd::http
