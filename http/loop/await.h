// The gateway's coroutines (Await), and what wakes them or calls for them: signals and deadlines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

// KVD_TRY and KVD_CHECK_OK (base/error.h) for coroutines that return Await<Result<T>>.
#define KVD_CO_TRY(declaration, expression)                                       \
  auto KVD_CONCAT(kvd_try_, __LINE__) = (expression);                             \
  if (!KVD_CONCAT(kvd_try_, __LINE__))                                            \
    co_return std::unexpected(std::move(KVD_CONCAT(kvd_try_, __LINE__)).error()); \
  declaration = std::move(*KVD_CONCAT(kvd_try_, __LINE__))
#define KVD_CO_CHECK_OK(expression)                                            \
  do {                                                                         \
    auto kvd_status = (expression);                                            \
    if (!kvd_status) co_return std::unexpected(std::move(kvd_status).error()); \
  } while (0)

namespace kvd::http {

// Await: the type of the gateway's coroutines, which all run on one event loop.
//
// A coroutine is used by the thread that runs the loop and by no other thread, so state that
// coroutines share needs no lock; it may change at every co_await.
using Loop = boost::asio::io_context;
template <class T>
using Await = boost::asio::awaitable<T>;

// Signal: wakes the coroutines that wait for a change of state, like a condition variable of one
// thread.
//
//   while (!queue.has_room()) co_await room_.Wait();
//
// The loop must outlive the Signal, and the Signal must outlive the coroutines that wait for it.
class Signal {
 public:
  explicit Signal(Loop& loop) : loop_(loop) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // Wakes every coroutine that waits now. They run after the caller, not inside of this call.
  void Notify();
  // Waits for the next Notify.
  Await<void> Wait();
  // Waits for the next Notify, at most `time`. Returns false if the time has passed.
  Await<bool> WaitFor(std::chrono::steady_clock::duration time);

 private:
  Loop& loop_;
  std::vector<boost::asio::steady_timer*> waiting_;
};

// Deadline: calls a function when a time has passed, unless the time is moved or cleared before.
//
// A Deadline is cheap to move: Set starts a timer only if no timer is due before the new time. A
// connection moves its deadlines with every request and starts a timer about once per time limit.
// The loop must outlive the Deadline. The function may not destroy the Deadline.
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
