#include "daemon/weight_reading.h"

#include <sys/resource.h>

#include "base/text.h"

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

}  // namespace kvd
