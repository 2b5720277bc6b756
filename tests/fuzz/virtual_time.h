// The time of a fuzz target: std::chrono::steady_clock stands still until AdvanceTime moves it.
//
// virtual_time.cc defines steady_clock::now() and timerfd_create(2) for the whole program, so that
// Asio's timers use this time, and no run depends on the speed of the machine.
#pragma once

#include <chrono>

namespace kvd::test {

void AdvanceTime(std::chrono::nanoseconds time);

}  // namespace kvd::test
