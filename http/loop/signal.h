// Signal: wakes the coroutines that wait for a change of state, like a condition variable of one
// thread.
//
//   while (!queue.has_room()) co_await room_.Wait();
//
// The loop must outlive the Signal, and the Signal must outlive the coroutines that wait for it.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <vector>

#include "http/loop/await.h"

namespace kvd::http {

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

}  // namespace kvd::http
