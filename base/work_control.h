// WorkControl: an interface that long work calls at bounded intervals, so that the long work yields
// to other work and can be cancelled.
//
// Owner: the caller that runs the work. The work calls its WorkControl on the thread on which the
// work itself was called. Tools and tests that run work without interruption pass
// `UncontrolledWork`.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "base/error.h"

namespace kvd {

class WorkControl {
 public:
  virtual ~WorkControl() = default;
  // Continue returns when the work may continue; other work may run meanwhile. REQUIRES: the caller
  // holds no lock that other work waits for. Errors: kCancelled (the result of the work is no
  // longer needed, and the work must return at once).
  virtual Status Continue() = 0;
  // Runs a call that waits for a device and needs no processor; other work may run meanwhile.
  // REQUIRES: as for Continue.
  virtual void Block(const std::function<void()>& call) { call(); }
};

// Work that is never interrupted.
class UncontrolledWork final : public WorkControl {
 public:
  Status Continue() override { return {}; }
};

// Returns a shared instance. UncontrolledWork has no state, so all threads may use it.
inline WorkControl& Uncontrolled() {
  static UncontrolledWork work;
  return work;
}

// Work that is cancelled when a flag is set.
class FlaggedWork final : public WorkControl {
 public:
  // `cancelled`: the flag; null if the work is never cancelled. The flag must outlive the
  // FlaggedWork.
  explicit FlaggedWork(const std::atomic<bool>* cancelled) : cancelled_(cancelled) {}
  Status Continue() override {
    if (cancelled_ == nullptr || !cancelled_->load(std::memory_order_relaxed)) return {};
    return Fail(Code::kCancelled, "cancelled");
  }

 private:
  const std::atomic<bool>* cancelled_;
};

// Calls Continue once for every kUnits units of work. A unit of work takes some nanoseconds, for
// example the work for one byte of text or one number of a file. The number of calls of Continue is
// thus proportional to the amount of work done.
class WorkMeter {
 public:
  static constexpr std::size_t kUnits = 1u << 15;

  explicit WorkMeter(WorkControl& work) : work_(work) {}

  // Announces `units` units of work that follow. Errors: kCancelled.
  Status Spend(std::size_t units) {
    spent_ += units;
    if (spent_ < kUnits) return {};
    return Pause();
  }

 private:
  // Calls Continue once for each kUnits units of work, also if a single Spend announced several
  // times kUnits.
  Status Pause() {
    for (; spent_ >= kUnits; spent_ -= kUnits) KVD_CHECK_OK(work_.Continue());
    return {};
  }

  WorkControl& work_;
  std::size_t spent_ = 0;
};

}  // namespace kvd
