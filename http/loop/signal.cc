#include "http/loop/signal.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tuple>

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

}  // namespace kvd::http
