// LiveMap: what the daemon holds, as it publishes it: read from shared memory, without a request.
//
// Owner: its user; keeps the session alive, because the daemon publishes only for who is there. One
// thread at a time.
#pragma once

#include <memory>

#include "shm/error.h"
#include "shm/map_reader.h"

namespace kvd {

class Connection;

class LiveMap {
 public:
  // Waits for the first publication. Errors: kInvalidArgument (the connection did not ask for the
  // map), kTimeout, MapReader's.
  static Result<LiveMap> Open(std::shared_ptr<Connection> connection);

  // Takes over what has changed since. Errors: kCorrupt.
  Result<MapState> Refresh() { return reader_.Refresh(); }
  // As of the last Refresh.
  const MapReader& content() const { return reader_; }

 private:
  LiveMap(std::shared_ptr<Connection> connection, MapReader reader);
  std::shared_ptr<Connection> connection_;
  MapReader reader_;
};

}  // namespace kvd
