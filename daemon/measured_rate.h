// MeasuredRate: how much is done per second, as it was lately: amounts and times are summed, and
// both fade, so that what took long counts for what it took. Threads: any.
#pragma once

#include <chrono>

#include "shm/mutex.h"

namespace kvd {

class MeasuredRate {
 public:
  void Add(double amount, std::chrono::nanoseconds time) {
    constexpr double kFade = 0.8;
    const MutexLock lock(mutex_);
    amount_ = amount_ * kFade + amount;
    seconds_ = seconds_ * kFade + std::chrono::duration<double>(time).count();
  }
  // 0: nothing was measured yet.
  double per_second() const {
    const MutexLock lock(mutex_);
    return seconds_ > 0 ? amount_ / seconds_ : 0;
  }

 private:
  mutable Mutex mutex_;
  double amount_ KVD_GUARDED_BY(mutex_) = 0;
  double seconds_ KVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace kvd
