#include "engine/forward/compute/thread_pool.h"

#include <immintrin.h>
#include <sched.h>
#include <fstream>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace kvd {

// ---- processors

namespace {

constexpr int kProcessorsMax = 8192;  // the limit of Linux on x86-64

// The first logical processor of the core that `processor` belongs to.
int FirstOfCore(int processor) {
  std::ifstream list(Concat("/sys/devices/system/cpu/cpu", processor,
                            "/topology/core_cpus_list"));  // "0,64" or "0-1"
  int first = 0;
  return list >> first ? first : processor;
}

}  // namespace

std::vector<int> UsableProcessors() {
  std::vector<cpu_set_t> mask(kProcessorsMax / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  if (::sched_getaffinity(0, bytes, mask.data()) != 0) return {};
  std::vector<int> firsts, others;
  std::vector<bool> core_is_taken(kProcessorsMax);
  for (int processor = 0; processor < kProcessorsMax; ++processor) {
    if (!CPU_ISSET_S(static_cast<std::size_t>(processor), bytes, mask.data())) continue;
    const auto core = static_cast<std::size_t>(FirstOfCore(processor));
    const bool is_taken = core < core_is_taken.size() && core_is_taken[core];
    (is_taken ? others : firsts).push_back(processor);
    if (core < core_is_taken.size()) core_is_taken[core] = true;
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  return firsts;
}

bool PinThisThread(int processor) {
  std::vector<cpu_set_t> mask(kProcessorsMax / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  CPU_ZERO_S(bytes, mask.data());
  CPU_SET_S(static_cast<std::size_t>(processor), bytes, mask.data());
  return ::sched_setaffinity(0, bytes, mask.data()) == 0;
}

// ---- thread pool
// A generation counter wakes the workers, and a gate decides which of them take part: the caller
// opens the gate, and closes it when no unit is left. A worker that finds the gate open enters, and
// the caller waits for it. The caller does not wait for a worker that wakes later, so a task of a
// few microseconds does not take the time of a wake-up. The task is changed only while the gate is
// closed and no worker is inside. A worker may enter a later task than the one that has woken it.
//
// A thread waits for either counter first by spinning briefly (a layer's next product usually
// follows within microseconds) and then by the futex of std::atomic::wait. Rest ends the spinning:
// after a step that nothing follows, the client's thread needs the processor.
//
// A wake-up takes as long as a whole step of a tiny model. If the last burst of tasks was short,
// the caller therefore begins alone and wakes the workers when the burst has become longer.

namespace {

constexpr int kSpinsMax = 4000;  // about 100 us
// Bursts up to this length are computed by the caller alone; about two wake-ups.
constexpr std::chrono::microseconds kShortBurst(100);

// Spins until `value` differs from `old`, `stop` (may be null) is set, or kSpinsMax is reached.
// Returns the value.
std::uint32_t SpinForChange(const std::atomic<std::uint32_t>& value, std::uint32_t old,
                            const std::atomic<bool>* stop) {
  for (int spin = 0; spin < kSpinsMax; ++spin) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return now;
    _mm_pause();
  }
  return old;
}

// Sleeps until `value` differs from `old`; returns its new value.
std::uint32_t SleepUntilChange(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (;;) {
    value.wait(old, std::memory_order_seq_cst);
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
  }
}

// Waits until `value` differs from `old`; returns its new value.
std::uint32_t AwaitChange(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const std::uint32_t now = SpinForChange(value, old, nullptr);
  return now != old ? now : SleepUntilChange(value, old);
}

}  // namespace

ThreadPool::ThreadPool(std::uint32_t thread_count, std::vector<int> processors)
    : thread_count_(thread_count),
      processors_(std::move(processors)),
      ranges_(std::make_unique<Range[]>(thread_count)) {
  KVD_ASSERT(thread_count >= 1);
  KVD_ASSERT(processors_.empty() || processors_.size() >= thread_count);
  threads_.reserve(thread_count - 1);
  for (std::uint32_t worker = 1; worker < thread_count; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::TakeUnits(std::uint32_t worker) {
  for (std::uint32_t turn = 0; turn < thread_count_; ++turn) {
    Range& range = ranges_[(worker + turn) % thread_count_];
    for (;;) {
      const std::size_t unit = range.next.fetch_add(1, std::memory_order_relaxed);
      if (unit >= range.end) break;
      call_(task_, worker, unit);
      if (worker == 0 && is_alone_) is_alone_ = StaysAlone();
    }
  }
}

void ThreadPool::BeginBurst() {
  if (in_burst_) return;
  in_burst_ = true;
  burst_began_ = Clock::now();
  resting_.store(false, std::memory_order_relaxed);
}

bool ThreadPool::StaysAlone() {
  if (!is_burst_long_ && Clock::now() - burst_began_ < kShortBurst) return true;
  is_burst_long_ = true;
  generation_.notify_all();
  return false;
}

void ThreadPool::Rest() {
  if (!in_burst_) return;
  in_burst_ = false;
  is_burst_long_ = Clock::now() - burst_began_ >= kShortBurst;
  resting_.store(true, std::memory_order_relaxed);
}

// False: the gate is closed.
bool ThreadPool::Enter() {
  std::uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::Leave() {
  if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_one();
}

// Pins a worker's thread to its processor. If the system refuses, the thread runs on any processor.
void ThreadPool::Pin(std::uint32_t worker) const {
  if (!processors_.empty()) (void)PinThisThread(processors_[worker]);
}

void ThreadPool::RunErased(std::size_t unit_count, Erased call, void* task) {
  if (!caller_is_pinned_) {
    Pin(0);
    caller_is_pinned_ = true;
  }
  if (thread_count_ == 1 || unit_count <= 1) {
    for (std::size_t unit = 0; unit < unit_count; ++unit) call(task, 0, unit);
    return;
  }
  call_ = call;
  task_ = task;
  for (std::uint32_t worker = 0; worker < thread_count_; ++worker) {
    ranges_[worker].next.store(unit_count * worker / thread_count_, std::memory_order_relaxed);
    ranges_[worker].end = unit_count * (worker + 1) / thread_count_;
  }
  BeginBurst();
  gate_.store(kOpen, std::memory_order_release);
  // A worker that begins to sleep is counted, or finds this number changed.
  generation_.fetch_add(1, std::memory_order_seq_cst);
  is_alone_ = asleep_.load(std::memory_order_seq_cst) != 0 && StaysAlone();
  TakeUnits(0);
  std::uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  while (inside != 0) inside = AwaitChange(gate_, inside);
}

// Waits until the number of tasks differs from `seen`; returns it.
std::uint32_t ThreadPool::AwaitTask(std::uint32_t seen) {
  std::uint32_t now = SpinForChange(generation_, seen, &resting_);
  if (now != seen) return now;
  asleep_.fetch_add(1, std::memory_order_seq_cst);
  now = SleepUntilChange(generation_, seen);
  asleep_.fetch_sub(1, std::memory_order_relaxed);
  return now;
}

void ThreadPool::WorkerLoop(std::uint32_t worker) {
  Pin(worker);
  std::uint32_t seen = 0;
  for (;;) {
    seen = AwaitTask(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!Enter()) continue;
    TakeUnits(worker);
    Leave();
  }
}

}  // namespace kvd
