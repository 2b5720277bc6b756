// WorkControl: what long work calls at bounded intervals, so that other work gets its turn and the
// work can be cancelled.
//
// Owner: the caller that runs the work; the work uses it on the thread that it was called on.
// Tools and tests that run work to its end give `UncontrolledWork`.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "shm/error.h"

namespace kvd {

class WorkControl {
 public:
  virtual ~WorkControl() = default;
  // Returns when the work may continue; other work may run meanwhile. REQUIRES: the caller holds no
  // lock that other work waits for. Errors: kCancelled: the result is not wanted any more; return at once.
  virtual Status Continue() = 0;
  // Calls what waits for a device and needs no processor; other work may run meanwhile. REQUIRES: as
  // Continue.
  virtual void Block(const std::function<void()>& call) { call(); }
};

// Work that nothing interrupts.
class UncontrolledWork final : public WorkControl {
 public:
  Status Continue() override { return {}; }
};

// It has no state, so that all threads may share it.
inline WorkControl& Uncontrolled() {
  static UncontrolledWork work;
  return work;
}

// Work that ends when a flag is set.
class FlaggedWork final : public WorkControl {
 public:
  // Null: never. The flag outlives it.
  explicit FlaggedWork(const std::atomic<bool>* cancelled) : cancelled_(cancelled) {}
  Status Continue() override {
    if (cancelled_ == nullptr || !cancelled_->load(std::memory_order_relaxed)) return {};
    return Fail(Code::kCancelled, "cancelled");
  }

 private:
  const std::atomic<bool>* cancelled_;
};

// Calls Continue once for every kUnits units of work. A unit is what takes some nanoseconds: a byte
// of text, a number of a file. So the calls of one piece of work count its steps.
class WorkMeter {
 public:
  static constexpr std::size_t kUnits = 1u << 15;

  explicit WorkMeter(WorkControl& work) : work_(work) {}

  // That many units are about to be done. Errors: kCancelled.
  Status Spend(std::size_t units) {
    spent_ += units;
    if (spent_ < kUnits) return {};
    return Pause();
  }

 private:
  // One call for each kUnits, also where many units were spent at once.
  Status Pause() {
    for (; spent_ >= kUnits; spent_ -= kUnits) KVD_CHECK_OK(work_.Continue());
    return {};
  }

  WorkControl& work_;
  std::size_t spent_ = 0;
};

}  // namespace kvd
