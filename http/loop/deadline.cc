// A timer that is due too early starts the next timer. The handler of a timer that was replaced may
// be queued already, so a handler knows the number of its timer.
#include "http/loop/deadline.h"

#include <utility>

namespace kvd::http {

Deadline::Deadline(Loop& loop, std::function<void()> due)
    : due_(std::move(due)), timer_(loop), alive_(std::make_shared<bool>(true)) {}

Deadline::~Deadline() { *alive_ = false; }

void Deadline::Set(TimePoint time) {
  time_ = time;
  if (time < timer_time_) StartTimer();
}

void Deadline::StartTimer() {
  timer_time_ = time_;
  const std::uint64_t number = ++timer_number_;
  timer_.expires_at(time_);
  timer_.async_wait([this, number, alive = alive_](const boost::system::error_code& error) {
    if (*alive && !error) OnTimer(number);
  });
}

void Deadline::OnTimer(std::uint64_t timer_number) {
  if (timer_number != timer_number_) return;
  timer_time_ = TimePoint::max();
  if (time_ == TimePoint::max()) return;
  if (std::chrono::steady_clock::now() < time_) return StartTimer();
  time_ = TimePoint::max();
  due_();
}

}  // namespace kvd::http
