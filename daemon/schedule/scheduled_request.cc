#include "daemon/schedule/scheduled_request.h"

#include <algorithm>
#include <vector>

namespace kvd {

void SequencePreparation::Look(Engine& engine, SequenceHandle sequence) {
  if (!work_) cells_ = engine.CellsToPrepare(sequence);
}

Status SequencePreparation::Advance(Engine& engine, SequenceHandle sequence, std::size_t cells) {
  cells_ = 0;
  if (!work_) {
    auto work = engine.StartPreparing(sequence);
    if (!work) return std::unexpected(std::move(work).error());
    work_ = std::move(*work);
  }
  const Result<bool> is_done = work_->Advance(cells);
  if (is_done && !*is_done) return {};
  work_.reset();
  if (is_done || is_done.error().code == Code::kConflict) return {};
  return std::unexpected(is_done.error());
}

void SequencePreparation::Drop() {
  work_.reset();
  cells_ = 0;
}

namespace {

std::size_t OwnWorkLeft(const ScheduledRequest& request) {
  return request.work == nullptr ? 0 : request.work->work_left();
}

}  // namespace

std::size_t WorkLeft(const ScheduledRequest& request) {
  const std::size_t own = OwnWorkLeft(request);
  return own > 0 ? own : request.preparation.cells_left();
}

WorkKind WorkKindOf(const ScheduledRequest& request) {
  return OwnWorkLeft(request) > 0 ? request.work->work_kind() : WorkKind::kRewrite;
}

void AdvanceWork(Engine& engine, ScheduledRequest& request, std::size_t tokens) {
  if (OwnWorkLeft(request) > 0) return request.work->DoWork(engine, tokens);
  const Status prepared = request.preparation.Advance(engine, request.request->sequence(), tokens);
  if (!prepared) request.request->FailWith(prepared.error());
  // When the preparation is done, the request must wait for a turn before it may begin other work.
  if (request.preparation.cells_left() == 0) request.has_begun_work = false;
}

wire::RequestState ScheduledRequest::state() const {
  if (parking) return wire::kRequestParked;
  const bool computes = request->has_appended() || has_begun_work || runs_alone();
  return computes && !opening.waits ? wire::kRequestComputes : wire::kRequestWaits;
}

void WorkTurns::Begin(std::span<ScheduledRequest> active) {
  const auto works = [](const ScheduledRequest& request) {
    // A request that waits for another request's prompt must not take the turn to begin work,
    // because the other request may need this turn.
    return !request.request->finishing() && !request.opening.waits && WorkLeft(request) > 0;
  };
  const auto owner_of = [](const ScheduledRequest& request) {
    return request.request->session().owner();
  };
  std::vector<OwnerId> begun;  // the users whose requests have begun work
  for (const ScheduledRequest& request : active) {
    if (request.has_begun_work && works(request)) begun.push_back(owner_of(request));
  }
  while (begun.size() < kWorksMax) {
    ScheduledRequest* next = nullptr;
    std::uint64_t next_turn = 0;
    for (ScheduledRequest& request : active) {
      if (request.has_begun_work || !works(request)) continue;
      const OwnerId owner = owner_of(request);
      if (std::ranges::find(begun, owner) != begun.end()) continue;
      const auto known = turn_of_.find(owner);
      const std::uint64_t turn = known == turn_of_.end() ? 0 : known->second;
      if (next != nullptr && next_turn <= turn) continue;
      next = &request;
      next_turn = turn;
    }
    if (next == nullptr) return;
    next->has_begun_work = true;
    turn_of_[owner_of(*next)] = ++turn_;
    begun.push_back(owner_of(*next));
  }
}

}  // namespace kvd
