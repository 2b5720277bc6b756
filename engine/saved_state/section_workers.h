// Runs one task per section on a few threads, in the order of their numbers, until one fails.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "shm/error.h"
#include "shm/mutex.h"

namespace kvd {

// Of several threads' errors the first.
class FirstError {
 public:
  void Keep(Status status) {
    const MutexLock lock(mutex_);
    if (status_) status_ = std::move(status);
  }
  Status Take() {
    const MutexLock lock(mutex_);
    return std::move(status_);
  }

 private:
  Mutex mutex_;
  Status status_ KVD_GUARDED_BY(mutex_) = {};
};

// work(worker, number) -> Status for each number in [0, count); `worker` is 0 to threads - 1 and
// runs one task at a time. Returns the first error there was; on_error() is called once it is there.
template <class Work, class OnError>
Status ForSections(unsigned threads, std::size_t count, const Work& work, const OnError& on_error) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> has_failed{false};
  FirstError first_error;
  const auto run = [&](unsigned worker) {
    while (!has_failed.load(std::memory_order_relaxed)) {
      const std::size_t number = next.fetch_add(1);
      if (number >= count) return;
      Status status = work(worker, number);
      if (status) continue;
      first_error.Keep(std::move(status));
      has_failed.store(true, std::memory_order_relaxed);
      on_error();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned worker = 1; worker < threads && worker < count; ++worker) {
      others.emplace_back(run, worker);
    }
    run(0);
  }
  return first_error.Take();
}

}  // namespace kvd
