#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>

namespace kvd {
namespace {

TEST(MutexTest, ALockIsHeldUntilItsScopeEndsOrItIsGivenBack) {
  Mutex mutex;
  const auto is_free = [&mutex] {
    bool was_free = false;
    std::thread([&] {
      if (!mutex.TryLock()) return;
      was_free = true;
      mutex.Unlock();
    }).join();
    return was_free;
  };
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(is_free());
    lock.Unlock();
    EXPECT_TRUE(is_free());
    lock.Lock();
    EXPECT_FALSE(is_free());
  }
  EXPECT_TRUE(is_free());
  {
    MutexLock lock(mutex);
    lock.Unlock();
  }
  EXPECT_TRUE(is_free()) << "given back once";
}

class Counter {
 public:
  void Add() {
    {
      const MutexLock lock(mutex_);
      ++count_;
    }
    grown_.NotifyAll();
  }
  int WaitFor(int count) {
    const MutexLock lock(mutex_);
    while (count_ < count) grown_.Wait(mutex_);
    return count_;
  }
  bool HasWithin(int count, std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    const MutexLock lock(mutex_);
    while (count_ < count) {
      if (!grown_.WaitUntil(mutex_, deadline)) return false;
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar grown_;
  int count_ KVD_GUARDED_BY(mutex_) = 0;
};

TEST(CondVarTest, AWaitEndsWithANotificationOrAtItsDeadline) {
  Counter counter;
  std::thread adder([&counter] {
    for (int i = 0; i < 1000; ++i) counter.Add();
  });
  EXPECT_EQ(counter.WaitFor(1000), 1000);
  adder.join();
  EXPECT_TRUE(counter.HasWithin(1000, std::chrono::milliseconds(0)));
  EXPECT_FALSE(counter.HasWithin(1001, std::chrono::milliseconds(5)));
}

}  // namespace
}  // namespace kvd
