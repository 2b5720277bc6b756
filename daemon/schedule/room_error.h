// NoRoomError: why the tokens of a request have no room, in the words of a user: how many tokens,
// what holds the pool's cells, which flag sets the limit, and which commands free cells.
#pragma once

#include <chrono>

#include "base/error.h"
#include "daemon/schedule/scheduled_request.h"
#include "engine/engine.h"

namespace kvd {

// Returns a kNoSpace whose message begins with wire::kNoRoomPrefix. `reason`: the memory's error.
// `waited`: how long the request has waited for room. Visits every sequence, in portions.
Error NoRoomError(Engine& engine, const ScheduledRequest& request, const Error& reason,
                  std::chrono::milliseconds waited = std::chrono::milliseconds(0));

}  // namespace kvd
