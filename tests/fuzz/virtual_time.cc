#include "tests/fuzz/virtual_time.h"

#include <sys/timerfd.h>

#include <cerrno>

namespace {

// Not 0, which some code takes for "no time".
std::chrono::nanoseconds now_since_boot = std::chrono::hours(1);

}  // namespace

std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
  return time_point(now_since_boot);
}

// Without timers of the kernel, Asio asks its clock after each wait.
extern "C" int timerfd_create(int, int) noexcept {
  errno = ENOSYS;
  return -1;
}

namespace kvd::test {

void AdvanceTime(std::chrono::nanoseconds time) { now_since_boot += time; }

}  // namespace kvd::test
