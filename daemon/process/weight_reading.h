// Reading the weights of the model into memory: when it is done, and the thread that does it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "engine/model/weight_reader.h"

namespace kvd {

// When the daemon reads the weights of its model whole (--prefetch, --mlock).
//
// The functions keep no state.

// The values of --prefetch.
enum class Prefetch { kAuto, kOn, kOff };

enum class WeightReading {
  kOnUse,          // each page when it is first used
  kInBackground,   // by a thread, while clients are served
  kBeforeServing,  // by a thread, before the first client is served
};

// `is_locked`: the weights are locked in memory, so kAuto reads them in any case.
WeightReading ChooseReading(Prefetch wanted, bool is_locked, std::uint64_t weight_bytes,
                            std::uint64_t free_bytes);

// RLIMIT_MEMLOCK: the most bytes that this process may lock. Empty: no limit.
std::optional<std::uint64_t> LockLimitBytes();

// The warning for weights that could not be locked.
std::string NotLockedText(const Error& error, std::optional<std::uint64_t> limit_bytes);

// WeightThread: the thread that reads the weights of the model into memory, and its progress.
//
// Owner: main, whose thread calls Start and Stop. While the thread reads, it logs its progress
// ("weights_reading") every few seconds, and at the end the bytes, the time and the rate
// ("weights_read"). Any thread may call progress().
class WeightThread {
 public:
  struct Progress {
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_to_read = 0;  // 0: the weights are read when they are first used
  };

  enum class Priority {
    kNormal,
    kLow,  // below the threads that serve requests
  };

  // Starts to read. `on_read`: called in the thread after all bytes have been read, but not after
  // Stop. REQUIRES: Start has not been called before.
  void Start(const WeightReader& weights, Priority priority, std::function<void()> on_read = {});
  bool has_started() const { return thread_.joinable(); }
  // Stops to read, and waits for the end of the thread. Without a thread, Stop has no effect.
  void Stop();

  Progress progress() const {
    return {.bytes_read = bytes_read_.load(std::memory_order_relaxed),
            .bytes_to_read = bytes_to_read_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> bytes_read_ = 0;
  std::atomic<std::uint64_t> bytes_to_read_ = 0;
  std::jthread thread_;
};

}  // namespace kvd
