// MapReader: a client's end of a `map` segment. A MapReader keeps private, validated copies of the
// data that the daemon has published.
//
// A MapReader is used by one thread at a time. Reading the live map makes no request and costs the
// daemon no time. The entries of one shard are consistent with each other; different shards may be
// one publication apart.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/map_layout.h"
#include "shm/shared_memory.h"

namespace kvd {

// The state of the daemon that writes the map. In states kStopped and kKilled the reader keeps the
// last copies that it could read.
enum class MapState : std::uint8_t {
  kLive,
  kStopped,  // the daemon has ended in order and has set MapHeader::is_over
  kKilled,   // the daemon has ended without setting MapHeader::is_over
};

class MapReader {
 public:
  // Checks seals, size and header, then maps the segment. Errors: kCorrupt (naming the field), kIo.
  static Result<MapReader> Open(UniqueFd descriptor);

  // Copies the shards that have changed. Errors: kCorrupt (an entry is invalid; the message names
  // it).
  Result<MapState> Refresh();

  std::uint32_t daemon_pid() const { return daemon_pid_; }
  std::uint32_t viewer_uid() const { return viewer_uid_; }
  std::uint64_t created_unix_ms() const { return created_unix_ms_; }
  // The content as of the last Refresh. has_content() is false before the daemon's first complete
  // publication.
  bool has_content() const { return totals_.pass != 0; }
  const layout::MapTotals& totals() const { return totals_; }
  // Entries of `sessions` whose session is 0 are unused.
  std::span<const layout::MapSession> sessions() const { return sessions_; }
  // Returns the entries of the map's blocks, indexed by block.
  std::span<const layout::MapBlock> blocks() const { return blocks_; }
  // Indexed by IndexOf(handle).
  std::span<const layout::MapSequence> sequences() const { return sequences_; }

 private:
  MapReader() = default;
  MapState State() const;
  // Copies the shard into words_. Returns false if the shard has not changed or no consistent copy
  // could be made.
  bool CopyShard(std::uint32_t shard);
  template <class T>
  Status ReadPart(MapSection part, std::vector<T>* entries);

  UniqueFd descriptor_;
  Mapping<kReadOnly> mapping_;
  MapGeometry geometry_;
  std::uint32_t daemon_pid_ = 0;
  std::uint32_t viewer_uid_ = 0;
  std::uint64_t created_unix_ms_ = 0;
  // Indexed by shard: the value that the shard's lock had at the last consistent copy.
  std::vector<std::uint64_t> seen_;
  std::vector<std::uint64_t> words_;
  layout::MapTotals totals_ = {};
  std::vector<layout::MapSession> sessions_;
  std::vector<layout::MapBlock> blocks_;
  std::vector<layout::MapSequence> sequences_;
};

// Returns the name of a state: "live", "stopped" or "killed".
const char* MapStateName(MapState state);

}  // namespace kvd
