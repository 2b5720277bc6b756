#include "daemon/work_turns.h"

#include <algorithm>
#include <vector>

namespace kvd {

std::size_t WorkLeft(const ComputingRequest& request) {
  const std::size_t own = request.work_left();
  return own > 0 ? own : request.preparation.cells_left();
}

WorkKind WorkKindOf(const ComputingRequest& request) {
  return request.work_left() > 0 ? request.work_kind() : WorkKind::kRewrite;
}

void AdvanceWork(Engine& engine, ComputingRequest& request, std::size_t tokens) {
  if (request.work_left() > 0) return request.DoWork(engine, tokens);
  const Status prepared = request.preparation.Advance(engine, request.sequence(), tokens);
  if (!prepared) request.FailWith(prepared.error());
  // When the preparation is done, the request must wait for a turn before it may begin other work.
  if (request.preparation.cells_left() == 0) request.has_begun_work = false;
}

void WorkTurns::Begin(std::span<const std::shared_ptr<ComputingRequest>> active) {
  const auto works = [](const ComputingRequest& request) {
    // A request that waits for another request's prompt must not take the turn to begin work,
    // because the other request may need this turn.
    return !request.finishing() && !request.opening.waits && WorkLeft(request) > 0;
  };
  std::vector<OwnerId> begun;  // the users whose requests have begun work
  for (const auto& request : active) {
    if (request->has_begun_work && works(*request)) begun.push_back(request->session().owner());
  }
  while (begun.size() < kWorksMax) {
    ComputingRequest* next = nullptr;
    std::uint64_t next_turn = 0;
    for (const auto& request : active) {
      if (request->has_begun_work || !works(*request)) continue;
      const OwnerId owner = request->session().owner();
      if (std::ranges::find(begun, owner) != begun.end()) continue;
      const auto known = turn_of_.find(owner);
      const std::uint64_t turn = known == turn_of_.end() ? 0 : known->second;
      if (next != nullptr && next_turn <= turn) continue;
      next = request.get();
      next_turn = turn;
    }
    if (next == nullptr) return;
    next->has_begun_work = true;
    turn_of_[next->session().owner()] = ++turn_;
    begun.push_back(next->session().owner());
  }
}

}  // namespace kvd
