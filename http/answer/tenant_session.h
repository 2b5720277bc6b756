// A tenant's session with one daemon, and the numbers of its answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"
#include "http/answer/served_model.h"
#include "http/answer/slots.h"
#include "http/backend/daemon_session.h"
#include "http/loop/await.h"
#include "http/loop/loop_workers.h"

namespace kvd::http {

// Metrics: what the answers of one tenant of one daemon have counted since the gateway's start, for
// GET /metrics and GET /slots. Used by the event loop's thread alone.
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

// TenantSession: one tenant's session with one daemon, with its slots.
//
// The session is opened when the tenant's first request comes, and again after it has failed; the
// sequences of a failed session are gone, and so are those of the slots.
class TenantSession {
 public:
  static constexpr std::chrono::seconds kDaemonTime{60};
  // How a session of this tenant is opened (backend/gateway_directory.h: it resumes the session of
  // an earlier gateway if there is one).
  using Open = std::function<Result<std::shared_ptr<DaemonSession>>()>;

  // `slots_path`: of the tenant's SlotFile; empty: slots do not outlive the process.
  TenantSession(Loop& loop, std::string name, ServedModel& model, LoopWorkers& workers, Open open,
                const std::string& slots_path)
      : loop_(loop),
        name_(std::move(name)),
        model_(model),
        workers_(workers),
        open_(std::move(open)),
        slots_(loop, model.slot_count()) {
    if (auto file = SlotFile::Open(slots_path, model.slot_count())) slots_.Keep(std::move(*file));
    slots_.OnGiveUp([this](SequenceHandle sequence) {
      if (session_) session_->RetainLater(sequence);
    });
  }

  TenantSession(const TenantSession&) = delete;
  TenantSession& operator=(const TenantSession&) = delete;

  const std::string& name() const { return name_; }
  ServedModel& model() { return model_; }
  Metrics& metrics() { return metrics_; }
  const Metrics& metrics() const { return metrics_; }
  LoopWorkers& workers() { return workers_; }
  Loop& loop() { return loop_; }
  Slots& slots() { return slots_; }

  // The session, opened if there is none or if it has failed. Errors: those of Client::Connect.
  Result<std::shared_ptr<DaemonSession>> session();
  // As session, but waits for a daemon that does not run, because it is started again, at most
  // kDaemonTime.
  Await<Result<std::shared_ptr<DaemonSession>>> WaitForSession();
  // Retains the sequences of a killed process that no slot has, so that only the prefix cache uses
  // them. `used`: sequences of answers that will be resumed. REQUIRES: no request was served yet.
  Await<void> RetainUnused(std::set<SequenceHandle> used);

 private:
  Loop& loop_;
  std::string name_;
  ServedModel& model_;
  Metrics metrics_;
  LoopWorkers& workers_;
  Open open_;
  std::shared_ptr<DaemonSession> session_;
  Slots slots_;
};

}  // namespace kvd::http
