// Deadline: calls a function when a time has passed, unless the time is moved or cleared before.
//
// A Deadline is cheap to move: Set starts a timer only if no timer is due before the new time. A
// connection moves its deadlines with every request and starts a timer about once per time limit.
// The loop must outlive the Deadline. The function may not destroy the Deadline.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "http/loop/await.h"

namespace kvd::http {

class Deadline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Deadline(Loop& loop, std::function<void()> due);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Calls the function at `time`, once; replaces the time that was set before.
  void Set(TimePoint time);
  void SetAfter(std::chrono::steady_clock::duration time) {
    Set(std::chrono::steady_clock::now() + time);
  }
  void Clear() { time_ = TimePoint::max(); }

 private:
  void StartTimer();
  void OnTimer(std::uint64_t timer_number);

  std::function<void()> due_;
  boost::asio::steady_timer timer_;
  TimePoint time_ = TimePoint::max();        // max: none
  TimePoint timer_time_ = TimePoint::max();  // of the timer that runs; max: none runs
  std::uint64_t timer_number_ = 0;           // of the timer that runs
  std::shared_ptr<bool> alive_;              // false after the destructor; handlers share it
};

}  // namespace kvd::http
