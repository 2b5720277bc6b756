// The expiry of sequences and snapshots: the seconds that are left, and Expiries, which drops what
// has expired.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/process/io_loop.h"
#include "engine/memory/memory.h"

namespace kvd {

// SecondsLeft: the time until a sequence or snapshot expires, as lists show it.

// Returns the seconds from `now_ms` to `expires_ms`, rounded up and at least 1; 0 if `expires_ms`
// is 0, which means that nothing expires.
constexpr std::uint32_t SecondsLeft(std::uint64_t expires_ms, std::uint64_t now_ms) {
  if (expires_ms == 0) return 0;
  const std::uint64_t left_ms = expires_ms > now_ms ? expires_ms - now_ms : 0;
  constexpr std::uint64_t kMax = 0xffff'ffff;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(left_ms / 1000 + (left_ms % 1000 != 0), 1, kMax));
}

// Expiries: drops the sequences and snapshots whose time of expiry has passed.
//
// Owner: the server. Only the io thread uses an Expiries. The times are stored in the sequences'
// records (SequenceLife), so they also hold after a restart. Expired sequences are dropped in
// portions between the io thread's other work, each with a commit of its own.
class Expiries {
 public:
  // Longest time between two looks at the clock: the system's clock may be set.
  static constexpr std::chrono::milliseconds kLookMax{60'000};

  // `cancel` is called before a sequence is dropped; it cancels the requests that compute on the
  // sequence. The loop and the memory outlive the Expiries.
  Expiries(IoLoop& loop, Memory& memory, std::function<void(SequenceHandle)> cancel);

  // Sets the timer for the earliest expiry. Called at the start, and after a request has set a time
  // of expiry.
  void Arm();
  // Drops a portion of the sequences that expire at `now_unix_ms` or earlier. Returns whether more
  // may be left.
  bool DropSome(std::uint64_t now_unix_ms);
  std::uint64_t dropped() const { return dropped_; }  // number of dropped sequences and snapshots

 private:
  void OnTimer();

  IoLoop& loop_;
  Memory& memory_;
  const std::function<void(SequenceHandle)> cancel_;
  std::unique_ptr<IoLoop::Handle> timer_;
  std::uint64_t dropped_ = 0;
};

}  // namespace kvd
