// MapPublisher: publishes the live maps (`map` segments), one map for each owner that has at
// least one client that asked for its map.
//
// Owner: the server. Only the io thread uses a MapPublisher. The map of an owner lists only
// objects that the owner may see: its own sequences and sessions, public snapshots, and the cells
// to which these sequences refer. Apart from the objects that the owner may see, a map contains
// only totals over all owners.
//
// While no client has asked for its map, no timer runs. If the memory and the totals have not
// changed, a timer tick reads the totals and writes no map. If the memory or the totals have
// changed, a pass visits all sequences and blocks in slices between the io thread's other work and
// holds the memory's lock for microseconds at a time. The next pass starts after kPeriod or after
// kRest times the duration of the pass, whichever is longer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/error.h"
#include "daemon/process/io_loop.h"
#include "engine/memory/memory.h"
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
  static constexpr std::uint32_t kSessionsShown = 1024;  // largest number of sessions in one map

  struct Sources {
    std::function<MapCounters()> counters;
    // Appends the sessions of `owner` to *sessions.
    std::function<void(OwnerId owner, std::vector<layout::MapSession>*)> sessions;
    // Returns the uid of an owner, which the map shows.
    std::function<std::uint32_t(OwnerId owner)> uid_of;
  };

  // The loop and the memory outlive the publisher.
  MapPublisher(IoLoop& loop, const Memory& memory, Sources sources);
  ~MapPublisher();
  MapPublisher(const MapPublisher&) = delete;
  MapPublisher& operator=(const MapPublisher&) = delete;

  // Registers one more client of `owner`. Returns the map's descriptor, to be sent to the client;
  // the publisher keeps the ownership of the descriptor. Errors: those of MapWriter::Create.
  Result<int> Watch(OwnerId owner);
  // Unregisters one client of `owner`. The map of an owner is closed when its last client is
  // unregistered.
  void Unwatch(OwnerId owner);

  // For tests: runs a whole pass at once if the content has changed. In the daemon, a timer runs
  // each pass in slices.
  void PublishNow();

 private:
  struct View;
  class Stager;
  enum class Stage : std::uint8_t { kIdle, kSequences, kBlocks };

  void Arm(std::chrono::milliseconds delay);
  void OnTimer();
  layout::MapTotals Totals() const;
  bool Begin();     // starts a pass; returns false if the content has not changed
  bool Continue();  // does one slice of the pass; returns false if the pass is complete
  void VisitSomeSequences();
  void WriteBlocks();
  void Finish();

  IoLoop& loop_;
  const Memory& memory_;
  const Sources sources_;
  std::map<OwnerId, std::unique_ptr<View>> views_;
  std::unique_ptr<IoLoop::Handle> timer_;
  MapGeometry geometry_;

  // The totals and the commit number that the last complete pass has published.
  layout::MapTotals shown_ = {};
  std::uint64_t shown_commit_ = 0;
  // The following members describe the pass in progress.
  Stage stage_ = Stage::kIdle;
  layout::MapTotals totals_ = {};
  std::uint64_t commit_ = 0;
  std::uint64_t passes_ = 0;
  std::uint32_t cursor_ = 0;  // the sequence or the shard of blocks that the pass visits next
  std::chrono::nanoseconds spent_{0};
  // True: a new client waits for its first pass, so the next pass runs even if the content has not
  // changed.
  bool is_forced_ = false;
};

}  // namespace kvd
