// ScheduledRequest: a computing request with the data that the scheduler keeps about it: its
// preparation, its promise of room, its turns, and how its prompt gets cells of other sequences.
//
// Owner: the scheduler, from the round that takes the request in until its final answer is sent.
// Only the engine thread uses a ScheduledRequest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/computing_request.h"
#include "daemon/sequence_preparation.h"
#include "engine/memory/steps.h"

namespace kvd {

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

struct ScheduledRequest {
  explicit ScheduledRequest(std::shared_ptr<ComputingRequest> taken_in)
      : request(std::move(taken_in)),
        step(request->step_member()),
        work(request->sliced_work()),
        alone(request->lone_work()) {}

  std::size_t wanted_tokens() const { return step == nullptr ? 0 : step->wanted_tokens(); }
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
  bool is_cancel_seen = false;  // true: OnCancel was called
  bool is_stalled = false;      // true: there was no room for the request's output in this round
  // True: the request may hold buffers, cells or state slots for its work.
  bool has_begun_work = false;
  bool is_forgotten = false;  // true: the request was removed from the scheduler's maps
};

}  // namespace kvd
