// MapWriter: the daemon's end of a `map` segment: shards written word by word, changed ones only.
//
// Owner: the daemon's publisher; one thread. What readers see is over when it is destroyed, or when
// the process is: the writer holds a lock on the memfd that the kernel gives back by itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/map_geometry.h"
#include "shm/mapping.h"
#include "shm/unique_fd.h"

namespace kvd {

class MapWriter {
 public:
  // `viewer_uid` is only told. Errors: kInvalidArgument (geometry), kIo, kNoSpace.
  static Result<MapWriter> Create(const MapGeometry& geometry, std::uint32_t viewer_uid);
  MapWriter(MapWriter&&) noexcept = default;
  MapWriter& operator=(MapWriter&&) = delete;
  ~MapWriter();

  const MapGeometry& geometry() const { return geometry_; }
  // To be sent: read-only, and with an open file description of its own, so that the writer's lock
  // is not the receiver's.
  int descriptor() const { return readable_.get(); }

  // Makes the first words of a shard these, the others stay. True: some word was another one.
  // REQUIRES: the shard exists, words.size() <= kMapPageBytes / 8.
  bool Write(MapPart part, std::uint32_t shard, std::span<const std::uint64_t> words);

  // For tests: a writer that is stopped in the middle of that shard.
  void LeaveShardOpenForTest(std::uint32_t shard);

 private:
  MapWriter() = default;
  std::atomic<std::uint64_t>& Lock(std::uint32_t shard) const;

  MapGeometry geometry_;
  UniqueFd writable_;  // holds the lock
  UniqueFd readable_;
  Mapping<kReadWrite> mapping_;
  std::vector<bool> written_;  // by shard: pages never written are not touched either
};

}  // namespace kvd
