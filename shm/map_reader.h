// MapReader: a client's end of a `map` segment: private, validated copies of what the daemon
// published.
//
// One thread at a time. Costs the daemon nothing: no request is made. Entries of one shard fit
// together; different shards may be one publication apart.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/map_geometry.h"
#include "shm/mapping.h"
#include "shm/unique_fd.h"

namespace kvd {

// kStopped and kKilled are stale: the copies are the last that could be read.
enum class MapState : std::uint8_t {
  kLive,
  kStopped,  // the daemon said that it writes no more
  kKilled,   // it is gone without a word
};

class MapReader {
 public:
  // Checks seals, size and header, maps it. Errors: kCorrupt (naming the field), kIo.
  static Result<MapReader> Open(UniqueFd descriptor);

  // Copies the shards that have changed. Errors: kCorrupt (an entry that cannot be; naming it).
  Result<MapState> Refresh();

  std::uint32_t daemon_pid() const { return daemon_pid_; }
  std::uint32_t viewer_uid() const { return viewer_uid_; }
  std::uint64_t created_unix_ms() const { return created_unix_ms_; }
  // As of the last Refresh.
  bool has_content() const { return totals_.pass != 0; }
  const layout::MapTotals& totals() const { return totals_; }
  std::span<const layout::MapSession> sessions() const { return sessions_; }     // 0: none
  std::span<const layout::MapBlock> blocks() const { return blocks_; }           // by block
  std::span<const layout::MapSequence> sequences() const { return sequences_; }  // by index

 private:
  MapReader() = default;
  MapState State() const;
  // The shard's words in words_. False: it has not changed, or was never seen whole.
  bool CopyShard(std::uint32_t shard);
  template <class T>
  Status ReadPart(MapPart part, std::vector<T>* entries);

  UniqueFd descriptor_;
  Mapping<kReadOnly> mapping_;
  MapGeometry geometry_;
  std::uint32_t daemon_pid_ = 0;
  std::uint32_t viewer_uid_ = 0;
  std::uint64_t created_unix_ms_ = 0;
  std::vector<std::uint64_t> seen_;  // by shard: the lock of the copy that we have
  std::vector<std::uint64_t> words_;
  layout::MapTotals totals_ = {};
  std::vector<layout::MapSession> sessions_;
  std::vector<layout::MapBlock> blocks_;
  std::vector<layout::MapSequence> sequences_;
};

// "live", "stopped", "killed".
const char* MapStateName(MapState state);

}  // namespace kvd
