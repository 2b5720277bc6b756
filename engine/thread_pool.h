// The compute threads: they run one task together and meet at its end. Workers spin briefly between
// tasks, then sleep.
//
// One pool per engine; Run is called by the engine thread only, which is worker 0 of every task.
// Threads live as long as the pool. A task is a plain function over shared data: nothing is
// allocated, nothing is queued.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace kvd {

class ThreadPool {
 public:
  // thread_count >= 1, the caller of Run included. processors: empty, or one for each worker, which then
  // runs there alone; the caller of Run is held to the first of them from its first call on.
  explicit ThreadPool(std::uint32_t thread_count, std::vector<int> processors = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t thread_count() const { return thread_count_; }

  // Calls task(worker, unit) once for each unit in [0, unit_count) and returns when all have ended.
  // Each worker goes through a range of its own in order, so that what lies one behind the other is
  // read so, then helps with the others'. worker < thread_count(). With one unit or one thread
  // everything runs on the caller.
  template <class Task>
  void Run(std::size_t unit_count, const Task& task) {
    RunErased(unit_count, &Call<Task>, const_cast<void*>(static_cast<const void*>(&task)));
  }

 private:
  using Erased = void (*)(void* task, std::uint32_t worker, std::size_t unit);
  template <class Task>
  static void Call(void* task, std::uint32_t worker, std::size_t unit) {
    (*static_cast<const Task*>(task))(worker, unit);
  }

  void RunErased(std::size_t unit_count, Erased call, void* task);
  void Pin(std::uint32_t worker) const;
  void WorkerLoop(std::uint32_t worker);
  void TakeUnits(std::uint32_t worker);

  // What is left of a worker's range; others take from its front, too.
  struct alignas(64) Range {
    std::atomic<std::size_t> next = 0;
    std::size_t end = 0;
  };

  const std::uint32_t thread_count_;
  const std::vector<int> processors_;  // empty, or [thread_count_]
  bool caller_is_pinned_ = false;
  std::unique_ptr<Range[]> ranges_;  // [thread_count_]
  // The task at hand; written before generation_ is raised, read after it was seen.
  Erased call_ = nullptr;
  void* task_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<std::uint32_t> busy_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace kvd
