// LiveMap: the daemon's live map of the sequences that this user may see, read from shared memory
// without requests.
//
// Owner: the caller of Open. A LiveMap keeps the session alive, because the daemon publishes only
// while a session wants the map. A LiveMap is used by one thread at a time.
#pragma once

#include <memory>

#include "base/error.h"
#include "shm/map_reader.h"

namespace kvd {

class Connection;

class LiveMap {
 public:
  // Opens the live map and waits for its first publication. Errors: kInvalidArgument (the
  // connection did not request the map), kTimeout, those of MapReader::Open.
  static Result<LiveMap> Open(std::shared_ptr<Connection> connection);

  // Reads the last published map. Errors: kCorrupt.
  Result<MapState> Refresh() { return reader_.Refresh(); }
  // Returns the map's content as of the last Refresh.
  const MapReader& content() const { return reader_; }

 private:
  LiveMap(std::shared_ptr<Connection> connection, MapReader reader);
  std::shared_ptr<Connection> connection_;
  MapReader reader_;
};

}  // namespace kvd
