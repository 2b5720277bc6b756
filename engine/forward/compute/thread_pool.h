// ThreadPool: the compute threads. All threads of the pool execute one task together, and the task
// ends when all of its units have ended. Between tasks the threads spin briefly and then sleep.
//
// An engine has one pool. Only the engine thread calls Run; the engine thread is worker 0 of every
// task. The threads live as long as the pool. A task is a plain function over shared data; starting
// a task allocates and queues nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace kvd {

// The processors that this process may run on, and pinning of threads to them.

// Numbers of the logical processors in this process's affinity mask: the first processor of each
// core, ascending, then the other processors. Cores are read from /sys/devices/system/cpu; if a
// processor's core is not listed there, the processor counts as a core. Empty if the affinity mask
// cannot be read.
std::vector<int> UsableProcessors();

// Pins the calling thread to the processor. Returns false and changes nothing if the system
// refuses.
bool PinThisThread(int processor);

class ThreadPool {
 public:
  // thread_count >= 1 includes the caller of Run. processors is empty or has one processor per
  // worker, to which that worker is pinned. The first call of Run pins the calling thread to the
  // first processor.
  explicit ThreadPool(std::uint32_t thread_count, std::vector<int> processors = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::uint32_t thread_count() const { return thread_count_; }

  // Calls task(worker, unit) once for each unit in [0, unit_count) and returns when all calls have
  // ended. A worker that wakes too late takes no part, and Run does not wait for it. Each worker
  // first processes its own contiguous range of units in order, so that adjacent
  // data is read in order, and then takes units from the ranges of other workers. worker <
  // thread_count(). With one unit or one thread, the calling thread executes all units.
  template <class Task>
  void Run(std::size_t unit_count, const Task& task) {
    RunErased(unit_count, &Call<Task>, const_cast<void*>(static_cast<const void*>(&task)));
  }
  // Informs the pool that no task is expected soon: workers that spin go to sleep, so that they do
  // not keep other programs from their processors. If the tasks since the last call of Rest took
  // less than the time of a wake-up, the next task does not wake the workers at once.
  void Rest();

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
  std::uint32_t AwaitTask(std::uint32_t seen);
  void BeginBurst();
  // Wakes the workers if the burst has become long. Returns whether they still sleep.
  bool StaysAlone();
  bool Enter();
  void Leave();

  // The remaining units of a worker's range. Other workers also take units from the front of the
  // range.
  struct alignas(64) Range {
    std::atomic<std::size_t> next = 0;
    std::size_t end = 0;
  };

  const std::uint32_t thread_count_;
  const std::vector<int> processors_;  // empty, or [thread_count_]
  bool caller_is_pinned_ = false;
  std::unique_ptr<Range[]> ranges_;  // [thread_count_]
  // The current task. Run writes the task before it opens the gate; workers read the task after
  // they have entered.
  Erased call_ = nullptr;
  void* task_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // counts tasks
  // kOpen while workers may enter the task, plus the number of workers in the task.
  static constexpr std::uint32_t kOpen = 1u << 31;
  alignas(64) std::atomic<std::uint32_t> gate_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> resting_{false};
  std::atomic<std::uint32_t> asleep_{0};  // workers that need a notification

  // A burst: the tasks between two calls of Rest. Only the engine thread uses these members.
  using Clock = std::chrono::steady_clock;
  Clock::time_point burst_began_;
  bool in_burst_ = false;
  bool is_burst_long_ = true;  // of the last burst; of this one as soon as it is known
  bool is_alone_ = false;      // workers sleep, and the task has not woken them
  std::vector<std::thread> threads_;
};

}  // namespace kvd
