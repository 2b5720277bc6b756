// WorkTurns: decides which requests may begin work that is not part of a step
// (SlicedWork, and the preparation of a sequence for a step).
//
// At most kWorksMax requests have begun work of this kind at a time, at most one request of each
// user, so that the buffers, cells and state slots that these requests hold are bounded. Other
// requests with such work wait. The next turn is that of the user whose last work began first.
//
// Owner: the scheduler. Only the engine thread uses a WorkTurns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/ids.h"
#include "daemon/scheduled_request.h"
#include "daemon/step_clock.h"
#include "engine/engine.h"

namespace kvd {

// Returns the amount of the request's own work that is left; if the request has no such work,
// returns the amount that is left of the preparation of its sequence.
std::size_t WorkLeft(const ScheduledRequest& request);
// Returns the kind of the work that WorkLeft counts.
WorkKind WorkKindOf(const ScheduledRequest& request);
// Does about `tokens` units of the work that WorkLeft counts. An error of the preparation ends the
// request.
void AdvanceWork(Engine& engine, ScheduledRequest& request, std::size_t tokens);

class WorkTurns {
 public:
  static constexpr std::size_t kWorksMax = 4;

  // Sets has_begun_work of each request that may begin its work now. `active`: all requests, in
  // order of arrival.
  void Begin(std::span<ScheduledRequest> active);

 private:
  // for each user, the number of the turn at which the user's last work began
  std::unordered_map<OwnerId, std::uint64_t> turn_of_;
  std::uint64_t turn_ = 0;
};

}  // namespace kvd
