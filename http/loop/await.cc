#include "http/loop/await.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tuple>
#include <utility>

namespace kvd::http {

namespace asio = boost::asio;

void Signal::Notify() {
  for (asio::steady_timer* timer : waiting_) timer->cancel();
  waiting_.clear();
}

Await<void> Signal::Wait() {
  asio::steady_timer timer(loop_, asio::steady_timer::time_point::max());
  waiting_.push_back(&timer);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

Await<bool> Signal::WaitFor(std::chrono::steady_clock::duration time) {
  asio::steady_timer timer(loop_, time);
  waiting_.push_back(&timer);
  const auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (error) co_return true;
  std::erase(waiting_, &timer);
  co_return false;
}

// A timer that is due too early starts the next timer. The handler of a timer that was replaced may
// be queued already, so a handler knows the number of its timer.

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
