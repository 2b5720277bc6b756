// MapWriter: the daemon's end of a `map` segment. Write compares a shard with new content and
// stores only the words that differ.
//
// Owner: the daemon's MapPublisher. A MapWriter is used by one thread. The writer holds a lock on
// the memfd, which the kernel releases when the process ends. Readers test this lock to find out
// whether the writer has ended; after an orderly destruction of the writer, MapHeader::is_over is
// also set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "shm/map_layout.h"
#include "shm/shared_memory.h"

namespace kvd {

class MapWriter {
 public:
  // `viewer_uid` is only stored in the header and the segment's name. Errors: kInvalidArgument
  // (geometry), kIo, kNoSpace.
  static Result<MapWriter> Create(const MapGeometry& geometry, std::uint32_t viewer_uid);
  MapWriter(MapWriter&&) noexcept = default;
  MapWriter& operator=(MapWriter&&) = delete;
  ~MapWriter();

  const MapGeometry& geometry() const { return geometry_; }
  // Returns the descriptor to send to clients. The returned descriptor is read-only and has a
  // separate open file description, so that the receiver does not share the writer's lock.
  int descriptor() const { return readable_.get(); }

  // Sets the first words of a shard to `words` and leaves the other words unchanged. Write returns
  // whether some word has changed. REQUIRES: the shard exists, words.size() <= kMapPageBytes / 8.
  bool Write(MapSection part, std::uint32_t shard, std::span<const std::uint64_t> words);

  // For tests: leaves the shard's lock odd, like a writer that was killed while it wrote the shard.
  void LeaveShardOpenForTest(std::uint32_t shard);

 private:
  MapWriter() = default;
  std::atomic<std::uint64_t>& Lock(std::uint32_t shard) const;

  MapGeometry geometry_;
  UniqueFd writable_;  // the open file description of this descriptor holds the lock on the memfd
  UniqueFd readable_;
  Mapping<kReadWrite> mapping_;
  // Indexed by shard; the page of a shard that was never written stays unallocated.
  std::vector<bool> written_;
};

}  // namespace kvd
