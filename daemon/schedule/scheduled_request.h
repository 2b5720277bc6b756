// Computing requests as the scheduler keeps them: the preparation of their sequences, their data,
// and the turns of their work between steps.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/ids.h"
#include "daemon/schedule/computing_request.h"
#include "daemon/schedule/step_clock.h"
#include "engine/engine.h"
#include "engine/memory/steps.h"

namespace kvd {

// SequencePreparation: rewrites the cells of a sequence that must be rewritten before the next step
// may append to it (Engine::CellsToPrepare), in slices.
//
// Owner: the computing request whose sequence is prepared; the scheduler calls the functions on the
// engine thread. Destroying a SequencePreparation abandons unfinished work, which then has no
// effect. The engine outlives the SequencePreparation.
class SequencePreparation {
 public:
  // Look checks whether the sequence must be prepared, and does not begin the work.
  void Look(Engine& engine, SequenceHandle sequence);
  // Returns the number of cells left to rewrite, or 0 if the sequence needed no preparation at the
  // last Look.
  std::size_t cells_left() const { return work_ ? work_->tokens_left() : cells_; }
  // Rewrites about `cells` cells. If the sequence was changed in the meantime, the work is dropped
  // without an error, and Look must be called again. An error also drops the work. Errors: those of
  // Engine::StartPreparing and CellWork::Advance.
  Status Advance(Engine& engine, SequenceHandle sequence, std::size_t cells);
  void Drop();

 private:
  std::unique_ptr<CellWork> work_;  // the work; null: the work has not begun
  std::size_t cells_ = 0;           // number of cells to rewrite; used before the work has begun
};

// ScheduledRequest: a computing request with the data that the scheduler keeps about it: its
// preparation, its promise of room, its turns, and how its prompt gets cells of other sequences.
//
// Owner: the scheduler, from the round that takes the request in until its final answer is sent.
// Only the engine thread uses a ScheduledRequest.

class PromptLoad;

// What PrefixSharing keeps about a prompt that begins an empty sequence.
struct OpeningState {
  bool is_looked_up = false;
  bool is_stalled = false;  // true: the last call of Fill found no room for the request's output
  bool waits = false;  // the request computes nothing because it waits for its leader or for `load`
  // An earlier request that computes the same first tokens. The pointer `leader` is only compared,
  // never dereferenced.
  const ComputingRequest* leader = nullptr;
  // Number of first tokens that the prompt has in common with the leader's, at most all but the
  // prompt's last token.
  std::size_t common = 0;
  // Number of tokens of the leader's sequence when the leader was last checked.
  std::size_t seen = 0;
  // The number of the prompt's tokens after which the recurrent state is kept; 0: no state is kept.
  std::size_t keep_at = 0;
  bool asks_disk = false;  // true: the prompt cache must still be searched for the prompt
  std::uint32_t loads_begun = 0;
  std::shared_ptr<PromptLoad> load;  // the cache entry that the request waits for; null: none
};

// A request that waits for room in the memory (daemon/schedule/room_queue.h).
struct Parking {
  std::chrono::steady_clock::time_point from{};       // when the request was parked
  std::chrono::steady_clock::time_point look_from{};  // before it, the request just waits
  bool is_owner_limit = false;                        // its owner's limit is used up, not the pool
  Error reason = {};
};

struct ScheduledRequest {
  explicit ScheduledRequest(std::shared_ptr<ComputingRequest> taken_in)
      : request(std::move(taken_in)),
        step(request->step_member()),
        work(request->sliced_work()),
        alone(request->lone_work()) {}

  std::size_t wanted_tokens() const { return step == nullptr ? 0 : step->wanted_tokens(); }
  wire::RequestState state() const;
  bool runs_alone() const { return alone != nullptr && alone->runs_alone(); }

  std::shared_ptr<ComputingRequest> request;
  // What the request computes; each is null if it computes nothing of that kind.
  StepMember* step;
  SlicedWork* work;
  LoneWork* alone;

  OpeningState opening;
  SequencePreparation preparation;  // the preparation of the request's sequence for the next step
  AppendPromise promise;  // the promise for the request's tokens; valid once is_admitted is set
  bool is_admitted = false;
  std::optional<Parking> parking;
  // When a request of its owner last progressed while the request waited for room; nullopt: it has
  // not waited since its own progress. Steps that find no room after all do not change it.
  std::optional<std::chrono::steady_clock::time_point> waits_since;
  bool is_cancel_seen = false;  // true: OnCancel was called
  bool is_stalled = false;      // true: there was no room for the request's output in this round
  // True: the request may hold buffers, cells or state slots for its work.
  bool has_begun_work = false;
  bool is_forgotten = false;  // true: the request was removed from the scheduler's maps
};

// WorkTurns: decides which requests may begin work that is not part of a step
// (SlicedWork, and the preparation of a sequence for a step).
//
// At most kWorksMax requests have begun work of this kind at a time, at most one request of each
// user, so that the buffers, cells and state slots that these requests hold are bounded. Other
// requests with such work wait. The next turn is that of the user whose last work began first.
//
// Owner: the scheduler. Only the engine thread uses a WorkTurns.

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
