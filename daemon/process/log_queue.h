// LogQueue: log lines that wait to be written to a descriptor whose reader may be slow or stalled.
//
// Any thread may add lines and never waits for the reader; one thread writes the lines. When the
// queue is full, its oldest lines are dropped, and one line that gives the number of dropped lines
// is written instead. Owner: the log (log.cc); tests create their own.
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
  // A function that returns the line, with its line break, that reports `line_count` dropped lines.
  using DescribeDropped = std::function<std::string(std::uint64_t line_count)>;

  // The caller keeps the ownership of the descriptor, which outlives the queue. Lines wait in the
  // queue until Start is called.
  LogQueue(int descriptor, std::size_t bytes_max, DescribeDropped describe_dropped);
  ~LogQueue();  // REQUIRES: Start was not called, or Stop was called after it
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  // Add may be called from any thread. `line` ends with a line break.
  void Add(std::string line);
  void Start();
  // Writes the remaining lines and ends the thread. Stop gives up if the descriptor's reader reads
  // nothing for the time `patience`. Lines that are added later wait for the next Start.
  void Stop(std::chrono::milliseconds patience);

  // Waits until the lines that were added before the call are written or dropped, but at most for
  // the time `most`. Wait is async-signal-safe.
  void Wait(std::chrono::milliseconds most) const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  // The state is shared with the queue's thread, because Stop may abandon the thread in a write
  // that does not return.
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace kvd
