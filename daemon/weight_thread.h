// WeightThread: the thread that reads the weights of the model into memory, and its progress.
//
// Owner: main, whose thread calls Start and Stop. While the thread reads, it logs its progress
// ("weights_reading") every few seconds, and at the end the bytes, the time and the rate
// ("weights_read"). Any thread may call progress().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "engine/model/weight_reader.h"

namespace kvd {

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
