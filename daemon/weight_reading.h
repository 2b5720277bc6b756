// When the daemon reads the weights of its model whole (--prefetch, --mlock).
//
// The functions keep no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace kvd {

// The values of --prefetch.
enum class Prefetch { kAuto, kOn, kOff };

enum class WeightReading {
  kOnUse,          // each page when it is first used
  kInBackground,   // by a thread, while clients are served
  kBeforeServing,  // by a thread, before the first client is served
};

// `is_locked`: the weights are locked in memory, so kAuto reads them in any case.
WeightReading ChooseReading(Prefetch wanted, bool is_locked, std::uint64_t weight_bytes,
                            std::uint64_t free_bytes);

// RLIMIT_MEMLOCK: the most bytes that this process may lock. Empty: no limit.
std::optional<std::uint64_t> LockLimitBytes();

// The warning for weights that could not be locked.
std::string NotLockedText(const Error& error, std::optional<std::uint64_t> limit_bytes);

}  // namespace kvd
