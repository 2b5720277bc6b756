// LogQueue: lines on their way to a descriptor whose reader may be slow or stalled.
//
// Any thread adds lines and never waits for the reader; one thread writes them. When the queue is
// full its oldest lines are dropped, and a line in their place says how many. Owner: the log
// (log.cc); tests have their own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace kvd {

class LogQueue {
 public:
  // A line, with its line break, that says that so many were dropped.
  using DescribeDropped = std::function<std::string(std::uint64_t line_count)>;

  // The descriptor remains the caller's and outlives the queue. Lines wait until Start.
  LogQueue(int descriptor, std::size_t bytes_max, DescribeDropped describe_dropped);
  ~LogQueue();  // REQUIRES: not started, or stopped
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  // Any thread. `line` has its line break.
  void Add(std::string line);
  void Start();
  // Writes what is left and ends the thread; gives up when the reader takes nothing for `patience`.
  // Lines that are added later wait for another Start.
  void Stop(std::chrono::milliseconds patience);

  // Waits until what was added is written or dropped, `most` at most. Async-signal-safe.
  void Wait(std::chrono::milliseconds most) const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  // Shared with the thread, which a stop may leave behind in a write that does not return.
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace kvd
