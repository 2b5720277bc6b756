#include "client/event_descriptor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace kvd {
namespace {

Status Add(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return FailErrno("watching a descriptor");
}

void Drain(int descriptor) {
  std::uint64_t count = 0;
  // The read fails with EAGAIN if the counter is 0 already.
  (void)!::read(descriptor, &count, sizeof count);
}

}  // namespace

Result<std::unique_ptr<EventDescriptor>> EventDescriptor::Create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailErrno("epoll");
  UniqueFd news(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news) return FailErrno("eventfd");
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return FailErrno("timerfd");
  KVD_CHECK_OK(Add(epoll.get(), news.get()));
  KVD_CHECK_OK(Add(epoll.get(), timer.get()));
  return std::unique_ptr<EventDescriptor>(
      new EventDescriptor(std::move(epoll), std::move(news), std::move(timer)));
}

Status EventDescriptor::Watch(int socket) {
  // Closing the old socket may have removed it from the epoll set already, so the result is
  // ignored.
  if (socket_ >= 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_, nullptr);
  socket_ = -1;
  if (socket < 0) return {};
  KVD_CHECK_OK(Add(epoll_.get(), socket));
  socket_ = socket;
  return {};
}

void EventDescriptor::Ring() {
  constexpr std::uint64_t kOne = 1;
  // The write fails with EAGAIN if the eventfd is readable already.
  (void)!::write(news_.get(), &kOne, sizeof kOne);
}

void EventDescriptor::LookAt(std::chrono::steady_clock::time_point time) {
  using std::chrono::duration_cast;
  const auto since_boot = time.time_since_epoch();
  const auto seconds = duration_cast<std::chrono::seconds>(since_boot);
  itimerspec at{};
  at.it_value.tv_sec = seconds.count();
  at.it_value.tv_nsec = duration_cast<std::chrono::nanoseconds>(since_boot - seconds).count();
  // a time of 0 would disarm the timer
  if (at.it_value.tv_sec <= 0 && at.it_value.tv_nsec <= 0) at.it_value.tv_nsec = 1;
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr) != 0) Ring();
}

void EventDescriptor::Clear() {
  const itimerspec never{};
  (void)::timerfd_settime(timer_.get(), 0, &never, nullptr);
  Drain(news_.get());
}

}  // namespace kvd
