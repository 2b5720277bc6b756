// MeasuredRate: a recent average rate, amount per second. Amounts and times are summed, and each
// addition first multiplies both sums by kFade, so that a long measurement weighs in proportion to
// its time. Any number of threads may use a MeasuredRate.
#pragma once

#include <chrono>

#include "base/mutex.h"

namespace kvd {

class MeasuredRate {
 public:
  void Add(double amount, std::chrono::nanoseconds time) {
    constexpr double kFade = 0.8;
    const MutexLock lock(mutex_);
    amount_ = amount_ * kFade + amount;
    seconds_ = seconds_ * kFade + std::chrono::duration<double>(time).count();
  }
  // Returns the average rate, or 0 if no measurement was added yet.
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
