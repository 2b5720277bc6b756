// The queue's thread calls poll(2) before each write and writes at most PIPE_BUF bytes, because a
// pipe that is ready for writing accepts PIPE_BUF bytes without blocking. A write can therefore
// block only on a stopped terminal.
#include "daemon/process/log_queue.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <deque>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace kvd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 20;

enum class Written : std::uint8_t { kSome, kNothing, kFailed };

// Waits up to kPollMs until the descriptor is writable, then writes at most PIPE_BUF bytes and
// removes the written bytes from `bytes`.
Written WriteSome(int descriptor, std::string_view* bytes) {
  pollfd entry{descriptor, POLLOUT, 0};
  const int ready = ::poll(&entry, 1, kPollMs);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return Written::kNothing;
  const auto part = bytes->substr(0, PIPE_BUF);
  const ssize_t written = ::write(descriptor, part.data(), part.size());
  if (written < 0) {
    return errno == EAGAIN || errno == EINTR ? Written::kNothing : Written::kFailed;
  }
  bytes->remove_prefix(static_cast<std::size_t>(written));
  return Written::kSome;
}

}  // namespace

struct LogQueue::State {
  State(int log_descriptor, std::size_t queued_bytes_max, DescribeDropped describe)
      : descriptor(log_descriptor),
        bytes_max(queued_bytes_max),
        describe_dropped(std::move(describe)) {}

  bool has_work() const KVD_REQUIRES(mutex) { return !lines.empty() || dropped > 0; }
  // Removes lines from the queue and returns them: up to PIPE_BUF bytes, oldest first, or one
  // longer line. If lines were dropped, the line that reports the number of dropped lines comes
  // first. REQUIRES: has_work().
  std::string TakePortion(std::uint64_t* line_count) KVD_REQUIRES(mutex) {
    std::string portion;
    *line_count = std::exchange(dropped, 0);
    if (*line_count > 0) portion = describe_dropped(*line_count);
    while (!lines.empty() &&
           (portion.empty() || portion.size() + lines.front().size() <= PIPE_BUF)) {
      queued_bytes -= lines.front().size();
      portion += lines.front();
      lines.pop_front();
      ++*line_count;
    }
    return portion;
  }
  // Writes `bytes`. Returns false if Stop waits and the reader has read nothing for `patience_ms`.
  bool Write(std::string_view bytes) {
    Clock::time_point last_progress = Clock::now();
    while (!bytes.empty()) {
      const Written written = WriteSome(descriptor, &bytes);
      // The descriptor cannot be written, so the bytes are dropped.
      if (written == Written::kFailed) return true;
      if (written == Written::kSome) last_progress = Clock::now();
      const std::int64_t patience = patience_ms.load();
      const auto waited = Clock::now() - last_progress;
      if (patience >= 0 && waited > std::chrono::milliseconds(patience)) return false;
    }
    return true;
  }

  const int descriptor;
  const std::size_t bytes_max;
  const DescribeDropped describe_dropped;
  std::atomic<std::uint64_t> added{0};        // number of lines that were added
  std::atomic<std::uint64_t> done{0};         // number of lines that were written or dropped
  std::atomic<std::int64_t> patience_ms{-1};  // argument of the Stop that waits; -1: no Stop waits

  Mutex mutex;
  CondVar changed;
  std::deque<std::string> lines KVD_GUARDED_BY(mutex);
  std::size_t queued_bytes KVD_GUARDED_BY(mutex) = 0;
  // Number of lines dropped since the last portion.
  std::uint64_t dropped KVD_GUARDED_BY(mutex) = 0;
  bool runs KVD_GUARDED_BY(mutex) = false;
};

LogQueue::LogQueue(int descriptor, std::size_t bytes_max, DescribeDropped describe_dropped)
    : state_(std::make_shared<State>(descriptor, bytes_max, std::move(describe_dropped))) {}

LogQueue::~LogQueue() { KVD_ASSERT(!thread_.joinable()); }

void LogQueue::Add(std::string line) {
  State& state = *state_;
  {
    const MutexLock lock(state.mutex);
    state.added.fetch_add(1);
    state.queued_bytes += line.size();
    state.lines.push_back(std::move(line));
    while (state.queued_bytes > state.bytes_max) {
      state.queued_bytes -= state.lines.front().size();
      state.lines.pop_front();
      ++state.dropped;
    }
  }
  state.changed.NotifyAll();
}

void LogQueue::Start() {
  {
    const MutexLock lock(state_->mutex);
    state_->patience_ms = -1;
    state_->runs = true;
  }
  thread_ = std::thread([state = state_] { Run(state); });
}

void LogQueue::Run(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mutex);
  for (;;) {
    while (!state->has_work() && state->patience_ms < 0) state->changed.Wait(state->mutex);
    if (!state->has_work()) break;
    std::uint64_t line_count = 0;
    const std::string portion = state->TakePortion(&line_count);
    lock.Unlock();
    const bool goes_on = state->Write(portion);
    lock.Lock();
    state->done.fetch_add(line_count);
    state->changed.NotifyAll();
    if (!goes_on) break;
  }
  state->runs = false;
  state->changed.NotifyAll();
}

void LogQueue::Stop(std::chrono::milliseconds patience) {
  if (!thread_.joinable()) return;
  State& state = *state_;
  MutexLock lock(state.mutex);
  state.patience_ms = patience.count();
  state.changed.NotifyAll();
  // The queue's thread ends after it has written the remaining lines. If a write does not return,
  // Stop detaches the queue's thread.
  for (bool may_wait = true; state.runs && may_wait;) {
    const std::uint64_t done = state.done;
    const auto deadline = Clock::now() + 2 * patience + std::chrono::milliseconds(10 * kPollMs);
    bool is_late = false;
    while (state.runs && state.done == done && !is_late) {
      is_late = !state.changed.WaitUntil(state.mutex, deadline);
    }
    may_wait = !state.runs || state.done != done;
  }
  const bool has_ended = !state.runs;
  lock.Unlock();
  if (has_ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void LogQueue::Wait(std::chrono::milliseconds most) const {
  constexpr std::int64_t kStepMs = 2;
  const std::uint64_t added = state_->added;
  for (std::int64_t waited_ms = 0; state_->done < added && waited_ms < most.count();
       waited_ms += kStepMs) {
    const timespec step{0, kStepMs * 1'000'000};
    (void)::nanosleep(&step, nullptr);
  }
}

}  // namespace kvd
