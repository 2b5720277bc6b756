// Runs one task per section on several threads, in ascending order of section numbers, until a task
// fails.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/work_control.h"

namespace kvd {

// Keeps the first error that one of several threads reports.
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

// Calls work(worker, number) -> Status for each number in [0, count). `worker` is 0 to threads - 1,
// and each worker runs one task at a time. Worker 0 is the calling thread; it calls
// control.Continue() before any task begins and before each of its own tasks. While
// control.Continue() blocks, no other worker begins a task. Returns the first error; on_error() is
// called after an error has been recorded. Errors: those of `work`; kCancelled; kNoSpace (a task
// ran out of memory).
template <class Work, class OnError>
Status ForSections(unsigned threads, std::size_t count, WorkControl& control, const Work& work,
                   const OnError& on_error) {
  // The calling thread calls Continue before any task, because the other workers may run every task
  // before the calling thread gets a task.
  KVD_CHECK_OK(control.Continue());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> has_failed{false};
  FirstError first_error;
  Mutex turn;  // held by the calling thread while control.Continue() may block
  const auto run_task = [&](unsigned worker, std::size_t number) -> Status {
    {
      const MutexLock lock(turn);
      if (worker == 0) KVD_CHECK_OK(control.Continue());
    }
    try {
      return work(worker, number);
    } catch (const std::bad_alloc&) {
      return Fail(Code::kNoSpace, "no memory for a section");
    }
  };
  const auto run = [&](unsigned worker) {
    while (!has_failed.load(std::memory_order_relaxed)) {
      const std::size_t number = next.fetch_add(1);
      if (number >= count) return;
      Status status = run_task(worker, number);
      if (status) continue;
      first_error.Keep(std::move(status));
      has_failed.store(true, std::memory_order_relaxed);
      on_error();
    }
  };
  {
    std::vector<std::jthread> others;
    for (unsigned worker = 1; worker < threads && worker < count; ++worker) {
      try {
        others.emplace_back(run, worker);
      } catch (const std::system_error&) {
        break;  // the existing threads do the work
      }
    }
    run(0);
  }
  return first_error.Take();
}

}  // namespace kvd
