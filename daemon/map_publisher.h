// MapPublisher: keeps the `map` segments: one for every uid that has a client which asked for it.
//
// Owner: the server; io thread only. A map shows its uid what that uid may see: its own sequences
// and sessions and publicly published sequences, one by one, and the cells of blocks that those
// refer to; of all other uids totals alone.
//
// Nobody looks: no timer runs. Nothing has changed: a tick takes one look at the totals and writes
// nothing. Else a pass walks all sequences and blocks in slices between the io thread's other work,
// locking the memory for microseconds at a time, and the next one starts at least kPeriod and
// kRest times its own duration later.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/io_loop.h"
#include "engine/memory/memory.h"
#include "shm/error.h"
#include "shm/map_writer.h"

namespace kvd {

struct MapCounters {
  std::uint64_t tokens_computed = 0;
  std::uint64_t tokens_sampled = 0;
  std::uint64_t steps = 0;
  std::uint32_t sessions = 0;
};

class MapPublisher {
 public:
  static constexpr std::chrono::milliseconds kPeriod{50};
  static constexpr int kRest = 20;
  static constexpr std::uint32_t kSessionsShown = 1024;  // of one uid

  struct Sources {
    std::function<MapCounters()> counters;
    // Appends the sessions of that uid.
    std::function<void(std::uint32_t uid, std::vector<layout::MapSession>*)> sessions;
  };

  // Loop and memory outlive it.
  MapPublisher(IoLoop& loop, const Memory& memory, Sources sources);
  ~MapPublisher();
  MapPublisher(const MapPublisher&) = delete;
  MapPublisher& operator=(const MapPublisher&) = delete;

  // One more client of that uid looks: the descriptor to send it, which stays the publisher's.
  // Errors: MapWriter::Create's.
  Result<int> Watch(std::uint32_t uid);
  // One less; with the last one the map is over.
  void Unwatch(std::uint32_t uid);

  // Publishes all at once if anything has changed; what the timer does in slices. For tests.
  void PublishNow();

 private:
  struct View;
  class Stager;
  enum class Stage : std::uint8_t { kIdle, kSequences, kBlocks };

  void Arm(std::chrono::milliseconds delay);
  void OnTimer();
  layout::MapTotals Totals() const;
  bool Begin();     // false: nothing has changed
  bool Continue();  // one portion; false: the pass is complete
  void VisitSomeSequences();
  void WriteBlocks();
  void Finish();

  IoLoop& loop_;
  const Memory& memory_;
  const Sources sources_;
  std::map<std::uint32_t, std::unique_ptr<View>> views_;  // by uid
  std::unique_ptr<IoLoop::Handle> timer_;
  MapGeometry geometry_;

  // What the last complete pass has shown.
  layout::MapTotals shown_ = {};
  std::uint64_t shown_commit_ = 0;
  // The pass that is on.
  Stage stage_ = Stage::kIdle;
  layout::MapTotals totals_ = {};
  std::uint64_t commit_ = 0;
  std::uint64_t passes_ = 0;
  std::uint32_t cursor_ = 0;  // sequence or shard of blocks
  std::chrono::nanoseconds spent_{0};
  bool is_forced_ = false;  // somebody new looks
};

}  // namespace kvd
