#include "client/live_map.h"

#include <fcntl.h>

#include <chrono>
#include <thread>
#include <utility>

#include "client/connection.h"

namespace kvd {
namespace {

// The longest time that Open waits for the first publication of the live map. The daemon begins to
// publish at once; publishing 10,000 sequences takes tens of milliseconds.
constexpr std::chrono::seconds kFirstWait{10};
constexpr std::chrono::milliseconds kPause{1};

}  // namespace

LiveMap::LiveMap(std::shared_ptr<Connection> connection, MapReader reader)
    : connection_(std::move(connection)), reader_(std::move(reader)) {}

Result<LiveMap> LiveMap::Open(std::shared_ptr<Connection> connection) {
  if (connection->map_descriptor() < 0) {
    return Fail(Code::kInvalidArgument, "map: the connection was opened without wants_map");
  }
  UniqueFd descriptor(::fcntl(connection->map_descriptor(), F_DUPFD_CLOEXEC, 3));
  if (!descriptor) return FailErrno("map: F_DUPFD_CLOEXEC");
  KVD_TRY(MapReader reader, MapReader::Open(std::move(descriptor)));
  const auto end = std::chrono::steady_clock::now() + kFirstWait;
  for (;;) {
    KVD_TRY(const MapState state, reader.Refresh());
    if (reader.has_content()) return LiveMap(std::move(connection), std::move(reader));
    if (state != MapState::kLive) {
      return Fail(Code::kDisconnected, "map: the daemon ended before it published the map");
    }
    if (std::chrono::steady_clock::now() > end) {
      return Fail(Code::kTimeout, "map: the daemon has not published the map yet");
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace kvd
