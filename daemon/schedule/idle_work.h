// Work of the daemon itself while no request computes: the interface IdleWork, and IdleTuning.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/engine.h"
#include "engine/tuning/tuning_run.h"
#include "shm/choice_source.h"

namespace kvd {

// IdleWork: work of the daemon itself that the scheduler does while no request computes.
class IdleWork {
 public:
  enum class Left {
    kNothing,  // the work is done
    kMore,
    kLater,  // the work cannot be done now, but perhaps later
  };

  virtual ~IdleWork() = default;
  // Does a part of the work that takes about a millisecond, and returns what is left. The scheduler
  // calls Slice on the engine thread; a request that arrives waits for one slice at most.
  virtual Left Slice() = 0;
};

// IdleTuning: measures the choices of products while the daemon is idle, or at once
// (docs/tuning.md).
//
// Owner: main. The engine thread calls Slice and MeasureNow; any thread calls the other functions.
// What idle slices have measured is saved for the next start and does not change the running
// engine.
class IdleTuning final : public IdleWork {
 public:
  // save: receives the measured choices, on the engine thread. begins: whether choices are to be
  // measured.
  IdleTuning(Engine& engine, bool begins, std::function<void(const Tuning&)> save);

  Left Slice() override;
  // Runs all slices, and the engine uses the result. REQUIRES: Engine::UseTuning.
  void MeasureNow();
  // Ends MeasureNow after its current slice; nothing is used or saved then.
  void Cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }

  TuningProgress progress() const { return progress_.load(std::memory_order_relaxed); }
  std::uint64_t slices() const { return slices_.load(std::memory_order_relaxed); }
  // When this run of the daemon has measured; 0: it has not.
  std::uint64_t measured_unix_ms() const {
    return measured_unix_ms_.load(std::memory_order_relaxed);
  }

 private:
  // Starts the run if it has not started. Returns false if there is nothing to measure.
  bool Begin(bool reads_weights);
  Tuning Finish();

  Engine& engine_;
  const std::function<void(const Tuning&)> save_;
  std::unique_ptr<TuningRun> run_;  // while it measures
  std::atomic<TuningProgress> progress_;
  std::atomic<std::uint64_t> slices_ = 0;
  std::atomic<std::uint64_t> measured_unix_ms_ = 0;
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace kvd
