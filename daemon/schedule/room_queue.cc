#include "daemon/schedule/room_queue.h"

#include <algorithm>
#include <utility>

#include "daemon/schedule/room_error.h"

namespace kvd {
namespace {

bool IsLive(const ScheduledRequest& request) { return !request.request->finishing(); }

// Whether the request can proceed: it waits neither for room in the memory, nor for its client to
// read.
bool Proceeds(const ScheduledRequest& request) {
  return IsLive(request) && !request.parking && !request.request->waits_for_room();
}

bool WantsRoom(const ScheduledRequest& request) {
  return IsLive(request) && !request.opening.waits && WorkLeft(request) == 0 &&
         request.wanted_tokens() > 0;
}

void BeginParking(ScheduledRequest& request, RoomQueue::Time now) {
  request.parking.emplace().from = now;
  if (!request.waits_since) request.waits_since = now;
}

OwnerId OwnerOf(const ScheduledRequest& request) { return request.request->session().owner(); }

// Whether the request has computed none of its prompt's tokens, and is promised no room.
bool IsBeforeFirstToken(const ScheduledRequest& request) {
  return request.step != nullptr && request.step->wants_prompt() && !request.is_admitted &&
         !request.request->has_appended();
}

}  // namespace

std::chrono::milliseconds RoomQueue::WaitOf(const ScheduledRequest& request) const {
  return request.step == nullptr ? std::chrono::milliseconds(0)
                                 : request.step->room_wait().value_or(wait_);
}

void RoomQueue::Look(std::span<ScheduledRequest> active) {
  Give(active);
  if (parked_count_ == 0) return;
  EndExpired(active);
  while (GiveBackOne(active)) Give(active);
  EndFull(active);
}

void RoomQueue::Give(std::span<ScheduledRequest> active) {
  Claim(active);
  engine_.memory().steps().FindRoom(claims_);
  parked_count_ = 0;
  for (ScheduledRequest& request : active) {
    if (WantsRoom(request)) continue;
    request.parking.reset();
    request.waits_since.reset();
  }
  for (std::size_t at = 0; at < claims_.size(); ++at) Settle(active[claimants_[at]], claims_[at]);
}

void RoomQueue::Claim(std::span<ScheduledRequest> active) {
  claims_.clear();
  claimants_.clear();
  const Time now = now_();
  for (std::size_t index = 0; index < active.size(); ++index) {
    const ScheduledRequest& request = active[index];
    if (!WantsRoom(request)) continue;
    claims_.push_back(
        {.handle = request.request->sequence(),
         .tokens = request.is_admitted ? request.wanted_tokens() : request.step->promised_tokens(),
         .must_wait = request.parking && now < request.parking->look_from});
    claimants_.push_back(index);
  }
}

void RoomQueue::Settle(ScheduledRequest& request, const RoomClaim& claim) {
  if (claim.verdict == RoomVerdict::kFits) {
    request.parking.reset();
    return;
  }
  const bool fails = claim.verdict == RoomVerdict::kNever && IsBeforeFirstToken(request);
  // A cancelled request that has shown a token would compute it before it ends; without room the
  // token is not committed.
  if (request.request->cancelled()) {
    request.request->EndWith(request.request->CancelledError());
  } else if (fails) {
    request.request->FailWith(NoRoomError(engine_, request, claim.reason));
  } else {
    if (!request.parking) BeginParking(request, now_());
    request.parking->is_owner_limit = claim.is_owner_limit;
    // The reason of the pause stays the reason of the wait.
    if (!claim.must_wait) request.parking->reason = claim.reason;
    ++parked_count_;
    return;
  }
  request.parking.reset();
}

bool RoomQueue::Park(ScheduledRequest& request, const Error& reason) {
  if (WaitOf(request).count() == 0 || request.request->cancelled()) return false;
  const Time now = now_();
  if (!request.parking) BeginParking(request, now);
  request.parking->reason = reason;
  request.parking->look_from = now + kPauseAfterFailure;
  ++parked_count_;
  return true;
}

void RoomQueue::NoteProgress(std::span<ScheduledRequest> active, ScheduledRequest& request) {
  request.waits_since.reset();
  if (parked_count_ == 0) return;
  const Time now = now_();
  for (ScheduledRequest& other : active) {
    if (other.waits_since && OwnerOf(other) == OwnerOf(request)) other.waits_since = now;
  }
}

void RoomQueue::EndFull(std::span<ScheduledRequest> active) {
  for (ScheduledRequest& request : active) {
    if (!request.parking) continue;
    const bool is_limit = request.parking->is_owner_limit;
    const auto may_give = [&](const ScheduledRequest& other) {
      return Proceeds(other) && (!is_limit || OwnerOf(other) == OwnerOf(request));
    };
    if (std::ranges::any_of(active, may_give)) continue;
    // An answer that has given cells back has all the room only if no other waits for it.
    if (request.step->given_left() > 0 && parked_count_ > 1) continue;
    if (!request.step->EndFull()) continue;
    request.parking.reset();
    --parked_count_;
    return;  // the others look again
  }
}

bool RoomQueue::GiveBackOne(std::span<ScheduledRequest> active) {
  for (std::size_t first = 0; first < active.size(); ++first) {
    if (!active[first].parking) continue;
    const OwnerId owner = OwnerOf(active[first]);
    const auto is_of_owner = [&](const ScheduledRequest& request) {
      return IsLive(request) && OwnerOf(request) == owner;
    };
    const auto proceeds = [&](const ScheduledRequest& request) {
      return is_of_owner(request) && Proceeds(request);
    };
    const auto is_parked = [&](const ScheduledRequest& request) {
      return is_of_owner(request) && request.parking;
    };
    // The earliest request of the owner that is parked is looked at once.
    if (std::ranges::any_of(active.first(first), is_parked) ||
        std::ranges::any_of(active, proceeds)) {
      continue;
    }
    for (std::size_t at = active.size(); at-- > 0;) {
      if (at != first && is_of_owner(active[at]) && GiveBack(active[at])) return true;
    }
  }
  return false;
}

bool RoomQueue::GiveBack(ScheduledRequest& request) {
  const std::optional<std::uint32_t> kept = request.step->kept_cells();
  if (!kept) return false;
  const SequenceHandle sequence = request.request->sequence();
  Sequences& sequences = engine_.memory().sequences();
  const Result<SequenceInfo> before = sequences.Query(sequence);
  // A retry finds the tokens only if the sequence is marked as computed by the request.
  const bool is_marked = before && before->request == request.request->id() &&
                         before->request_session == request.request->session().id() &&
                         before->request_first_cell;
  if (!is_marked || !sequences.GiveBack(sequence, *kept)) return false;
  const Result<SequenceInfo> after = sequences.Query(sequence);
  Result<std::vector<TokenId>> tokens = sequences.GivenTokens(sequence);
  if (!after || !tokens) return false;  // dropped meanwhile; the next step reports it
  tokens_given_back_.fetch_add(before->cell_count - after->cell_count, std::memory_order_relaxed);
  request.step->OnGivenBack(std::move(*tokens), after->next_pos);
  request.promise = {};
  request.is_admitted = false;
  request.opening = {};
  request.preparation.Drop();
  return true;
}

void RoomQueue::EndExpired(std::span<ScheduledRequest> active) {
  const Time now = now_();
  for (ScheduledRequest& request : active) {
    if (!request.parking || now < *request.waits_since + WaitOf(request)) continue;
    const Error error = NoRoomError(engine_, request, request.parking->reason, WaitOf(request));
    request.parking.reset();
    --parked_count_;
    request.request->FailWith(error);
  }
}

}  // namespace kvd
