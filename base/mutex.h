// Mutex, MutexLock and CondVar: std::mutex and std::condition_variable with attributes for
// clang's analysis of threads, at the same cost.
//
//   Mutex mutex_;
//   std::size_t count_ KVD_GUARDED_BY(mutex_) = 0;
//   void Grow() KVD_REQUIRES(mutex_);
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Attributes for clang's -Wthread-safety analysis: which mutex guards which data. Compilers other
// than clang ignore the attributes. The sanitizer builds use clang and fail to compile
// if guarded data is accessed without its mutex.
//
// Source of the attributes: clang's ThreadSafetyAnalysis page. The mutexes of this file
// have these attributes; the mutexes of libstdc++ do not.

#if defined(__clang__)
#define KVD_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define KVD_THREAD_ANNOTATION(x)
#endif

#define KVD_CAPABILITY(name) KVD_THREAD_ANNOTATION(capability(name))
#define KVD_SCOPED_CAPABILITY KVD_THREAD_ANNOTATION(scoped_lockable)

// KVD_GUARDED_BY: the member is accessed only with the mutex held. KVD_PT_GUARDED_BY: the object
// that the pointer member points to is accessed only with the mutex held.
#define KVD_GUARDED_BY(mutex) KVD_THREAD_ANNOTATION(guarded_by(mutex))
#define KVD_PT_GUARDED_BY(mutex) KVD_THREAD_ANNOTATION(pt_guarded_by(mutex))

// KVD_REQUIRES: the function is called with the mutex held. KVD_EXCLUDES: the function is called
// without the mutex held.
#define KVD_REQUIRES(...) KVD_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define KVD_EXCLUDES(...) KVD_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// KVD_ACQUIRE, KVD_TRY_ACQUIRE: the function returns with the mutex held. KVD_RELEASE: the function
// releases the mutex.
#define KVD_ACQUIRE(...) KVD_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define KVD_TRY_ACQUIRE(...) KVD_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define KVD_RELEASE(...) KVD_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// KVD_ACQUIRED_AFTER: the mutex is locked only after the given mutexes.
#define KVD_ACQUIRED_AFTER(...) KVD_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
// Tells clang's analysis that the mutex is held, for code in which the analysis cannot know this: a
// lambda that is called with the mutex held.
#define KVD_ASSERT_CAPABILITY(mutex) KVD_THREAD_ANNOTATION(assert_capability(mutex))

// KVD_NO_THREAD_SAFETY_ANALYSIS: clang's analysis skips the function. A comment at each use of
// KVD_NO_THREAD_SAFETY_ANALYSIS states why no other thread can interfere.
#define KVD_NO_THREAD_SAFETY_ANALYSIS KVD_THREAD_ANNOTATION(no_thread_safety_analysis)

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
