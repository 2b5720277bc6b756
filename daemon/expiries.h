// Expiries: drops the sequences and snapshots whose time of expiry has passed.
//
// Owner: the server. Only the io thread uses an Expiries. The times are stored in the sequences'
// records (SequenceLife), so they also hold after a restart. Expired sequences are dropped in
// portions between the io thread's other work, each with a commit of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/io_loop.h"
#include "engine/memory/memory.h"

namespace kvd {

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
