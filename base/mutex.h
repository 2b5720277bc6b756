// Mutex, MutexLock and CondVar: std::mutex and std::condition_variable with the attributes of
// base/thread_annotations.h, at the same cost.
//
//   Mutex mutex_;
//   std::size_t count_ KVD_GUARDED_BY(mutex_) = 0;
//   void Grow() KVD_REQUIRES(mutex_);
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/thread_annotations.h"

namespace kvd {

class KVD_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() KVD_ACQUIRE() { native_.lock(); }
  void Unlock() KVD_RELEASE() { native_.unlock(); }
  bool TryLock() KVD_TRY_ACQUIRE(true) { return native_.try_lock(); }

  // Tells the analysis that the mutex is held. AssertHeld is for lambdas that are only called with
  // the mutex held, because the analysis treats each lambda separately. AssertHeld checks nothing
  // at run time.
  void AssertHeld() const KVD_ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex native_;
};

// A MutexLock holds its mutex for a scope. Unlock and Lock may release and reacquire the mutex
// within the scope.
class KVD_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) KVD_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() KVD_RELEASE() {
    if (is_held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() KVD_RELEASE() {
    is_held_ = false;
    mutex_.Unlock();
  }
  void Lock() KVD_ACQUIRE() {
    mutex_.Lock();
    is_held_ = true;
  }

 private:
  Mutex& mutex_;
  bool is_held_ = true;
};

// A wait on a CondVar releases the mutex and reacquires it before the wait returns. A wait may
// return without a notification, so call Wait in a loop that checks the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) KVD_REQUIRES(mutex) {
    Adopted lock(mutex);
    condition_.wait(lock.native);
  }
  // Returns false if the wait ended because `deadline` has passed.
  template <class Clock, class Duration>
  bool WaitUntil(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& deadline)
      KVD_REQUIRES(mutex) {
    Adopted lock(mutex);
    return condition_.wait_until(lock.native, deadline) == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  // An Adopted uses a mutex that the caller holds, and neither locks nor unlocks the mutex.
  struct Adopted {
    explicit Adopted(Mutex& mutex) : native(mutex.native_, std::adopt_lock) {}
    ~Adopted() { native.release(); }
    std::unique_lock<std::mutex> native;
  };

  std::condition_variable condition_;
};

}  // namespace kvd
