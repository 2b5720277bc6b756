#include "daemon/process/weight_reading.h"

#include <sys/resource.h>

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "daemon/process/log.h"

namespace kvd {

WeightReading ChooseReading(Prefetch wanted, bool is_locked, std::uint64_t weight_bytes,
                            std::uint64_t free_bytes) {
  switch (wanted) {
    case Prefetch::kOff: return WeightReading::kOnUse;
    case Prefetch::kOn: return WeightReading::kBeforeServing;
    case Prefetch::kAuto: break;
  }
  if (is_locked) return WeightReading::kBeforeServing;
  return weight_bytes <= free_bytes ? WeightReading::kInBackground : WeightReading::kOnUse;
}

std::optional<std::uint64_t> LockLimitBytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

std::string NotLockedText(const Error& error, std::optional<std::uint64_t> limit_bytes) {
  return Concat("--mlock: ", error.message, "; RLIMIT_MEMLOCK is ",
                limit_bytes ? Concat(*limit_bytes, " bytes") : "unlimited",
                " (raise it with ulimit -l, or LimitMEMLOCK= of a systemd unit)");
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReportEvery{2};

// The argument of setpriority that names the calling thread; Linux has a priority for each thread.
constexpr id_t kThisThread = 0;
constexpr int kLowNice = 5;

std::uint64_t MillisecondsSince(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count());
}

std::string RateText(std::uint64_t bytes, std::uint64_t milliseconds) {
  return Concat("ms=", milliseconds, " mb_per_s=", bytes / 1000 / (milliseconds + 1));
}

}  // namespace

void WeightThread::Start(const WeightReader& weights, Priority priority,
                         std::function<void()> on_read) {
  KVD_ASSERT(!has_started());
  bytes_to_read_.store(weights.byte_count(), std::memory_order_relaxed);
  thread_ = std::jthread(
      [this, weights, priority, on_read = std::move(on_read)](const std::stop_token& stop) {
        if (priority == Priority::kLow) (void)::setpriority(PRIO_PROCESS, kThisThread, kLowNice);
        const Clock::time_point start = Clock::now();
        Clock::time_point reported = start;
        const bool is_read = weights.Read(stop, [&](std::uint64_t bytes) {
          bytes_read_.store(bytes, std::memory_order_relaxed);
          if (Clock::now() - reported < kReportEvery) return;
          reported = Clock::now();
          Log(LogLevel::kInfo, "weights_reading",
              Concat("bytes=", bytes, " of=", weights.byte_count(), " ",
                     RateText(bytes, MillisecondsSince(start))));
        });
        if (!is_read) return;
        Log(LogLevel::kInfo, "weights_read",
            Concat("bytes=", weights.byte_count(), " ",
                   RateText(weights.byte_count(), MillisecondsSince(start))));
        if (on_read) on_read();
      });
}

void WeightThread::Stop() { thread_ = {}; }

}  // namespace kvd
