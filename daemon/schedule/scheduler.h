// Scheduler: holds the computing requests of all clients and runs the engine thread's loop over
// them (continuous batching).
//
// Owner: main. The engine thread calls Run (or RunOnce); all other functions may be called from any
// thread and never wait for a step. A sequence has at most one computing request at a time.
// Invariant: a request is in `requests_` and its sequence in `computing_` from Submit until the
// final answer is known, so that no request computes on the sequence when the client reads the
// answer. Requests that wait for room in their client's segments are skipped; the io thread calls
// WakeUp when room may have become free.
//
// Work that is not part of a step (SlicedWork, and the preparation of a sequence
// for a step) is divided among requests by the same plan as the tokens of the step, and is done
// after the step. WorkTurns bounds the number of requests that have begun such work.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "daemon/schedule/computing_request.h"
#include "daemon/schedule/defragmentation.h"
#include "daemon/schedule/idle_work.h"
#include "daemon/schedule/prefix_sharing.h"
#include "daemon/schedule/room_queue.h"
#include "daemon/schedule/scheduled_request.h"
#include "daemon/schedule/step_clock.h"
#include "daemon/schedule/step_planner.h"
#include "engine/engine.h"

namespace kvd {

struct SchedulerOptions {
  std::size_t prefill_chunk_tokens = 256;
  // Target duration of a step with decode rows, which limits the prompt chunks in the step; 0: no
  // limit.
  double step_seconds_max = 0.0;
  // Size of the scratch rows from which the daemon samples, in floats; there is always at least one
  // row.
  std::size_t scratch_floats_max = (64u << 20) / sizeof(float);
  // The part of the used blocks that may be waste before an automatic defragmentation begins; 0: no
  // automatic defragmentation.
  double defrag_threshold = 0.0;
  // The prompt cache, which outlives the scheduler; null: the daemon has no prompt cache.
  PromptCache* prompt_cache = nullptr;
  // How long a request waits for room while no request of its owner progresses; 0: not at all.
  std::chrono::milliseconds room_wait{60'000};
  // Work for the time in which no request computes; null: none.
  IdleWork* idle_work = nullptr;
  // Idle work begins so long after the last request has ended.
  std::chrono::milliseconds idle_wait{2000};
  // The clock that measures steps and work.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// Requests in flight, by their state.
struct RequestCounts {
  std::uint32_t waiting = 0;
  std::uint32_t computing = 0;
  std::uint32_t parked = 0;
};

class Scheduler {
 public:
  Scheduler(Engine& engine, std::uint32_t vocab_size, SchedulerOptions options);

  // Errors: kBusy (another request computes on the sequence; the message names that request),
  // kInvalidArgument (the session has a request of the same id in flight), kCancelled (the daemon
  // stops). On error the caller answers the client.
  Status Submit(std::unique_ptr<ComputingRequest> request);
  // Cancels the session's computing request with id `request`, which then ends with kCancelled.
  // Returns whether the session has a computing request with this id.
  bool Cancel(SessionId session, RequestId request);
  void CancelSession(SessionId session);
  // Returns whether the session has a request that has not ended yet; a cancelled request counts
  // until it ends.
  bool HasRequests(SessionId session) const;
  // Cancels the request that computes on the sequence, because the sequence is about to be dropped.
  void CancelSequence(SequenceHandle sequence);
  // Returns kBusy if a computing request works on the sequence, else Ok.
  Status CheckIdle(SequenceHandle sequence) const;
  // What the request does that computes on the sequence.
  RequestStanding StandingOf(SequenceHandle sequence) const;
  // Counts the requests in flight of all clients.
  RequestCounts counts() const;
  // Informs the engine thread of a change that stalled requests may be waiting for.
  void WakeUp();

  // Runs rounds until Stop is called. Run then ends every request with kCancelled, except requests
  // whose session will resume with the next daemon.
  void Run();
  void Stop();
  // Removes every request without answering it; unfinished work of the requests is undone.
  // REQUIRES: Run is not running.
  void DropRequests();
  // Runs one round: takes new requests, runs at most one step, and sends answers. Returns false if
  // no request could make progress.
  bool RunOnce();
  // Runs one round and, if no request could make progress and the daemon has been idle for
  // SchedulerOptions::idle_wait, one slice of the idle work. Returns false if neither did anything.
  bool RunRound();

  const PrefixSharing& prefix_sharing() const { return sharing_; }
  // Tokens whose cells were given back to make room. Any thread.
  std::uint64_t tokens_given_back() const { return room_.tokens_given_back(); }
  std::uint64_t tokens_sampled() const { return tokens_sampled_.load(std::memory_order_relaxed); }

 private:
  // The part of one request in a step, with the request's scratch row.
  struct Part {
    float* row = nullptr;
    std::size_t candidate = 0;  // index in candidates_, and of the request in active_
  };

  // The amount of work between steps that is planned for one request.
  struct WorkShare {
    std::size_t prompt_tokens = 0;
    // Index in candidates_, and of the request in active_; active_.size(): the automatic
    // defragmentation.
    std::size_t candidate = 0;
  };
  using RequestsOfSession = std::unordered_map<RequestId, std::shared_ptr<ComputingRequest>>;

  bool RunIdle();
  void TakeIn();
  bool HandleCancels();
  bool RunLoners();
  bool Step();
  // Chooses the requests that compute, and fills items_, parts_ and works_.
  void FillStep();
  Status Admit(ScheduledRequest& request);
  // Whether the request waits for room now, because `status` says that there is none.
  bool HasParked(ScheduledRequest& request, const Status& status);
  // Replaces the memory's error of lacking room by one for users (NoRoomError).
  void Explain(const ScheduledRequest& request, Status& status);
  // Fills items_ and parts_ for the shares. Returns true if a request has newly stalled or was
  // refused; the caller then plans again if no other request was chosen.
  bool FillItems(std::span<const StepShare> shares);
  void ListCandidates();
  // Finds the sequences that must be prepared before their requests may take part in a step.
  void LookForPreparations();
  // The weight of the session's owner; 1 if the session counts for no account.
  static std::uint32_t WeightOf(const Session& session);
  bool DoWork();
  void DoWorkOf(const WorkShare& share);
  void Compute();
  std::size_t TokensNow(const ScheduledRequest& request, std::size_t tokens) const;
  // Sends waiting answers and removes the requests that have ended.
  void Settle();
  // Notes what each request does, for other threads and for clients that want to know.
  void NoteStandings();
  void Forget(ScheduledRequest& request);  // removes the request from requests_ and computing_

  Engine& engine_;
  const std::uint32_t vocab_size_;
  const SchedulerOptions options_;

  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<std::shared_ptr<ComputingRequest>> submitted_ KVD_GUARDED_BY(mutex_);
  std::unordered_map<SessionId, RequestsOfSession> requests_ KVD_GUARDED_BY(mutex_);
  std::unordered_map<SequenceHandle, std::shared_ptr<ComputingRequest>> computing_
      KVD_GUARDED_BY(mutex_);
  bool woken_ KVD_GUARDED_BY(mutex_) = false;
  bool stopping_ KVD_GUARDED_BY(mutex_) = false;

  std::atomic<std::uint64_t> tokens_sampled_ = 0;
  // The requests of active_ after the last round, by RequestState.
  std::array<std::atomic<std::uint32_t>, wire::kRequestParked + 1> state_counts_{};

  // Only the engine thread uses the following members.
  StepPlanner planner_;
  StepClock clock_;
  PrefixSharing sharing_;
  RoomQueue room_;
  std::vector<ScheduledRequest> active_;  // the requests in order of arrival
  // The leaders of waiting requests, sorted by address.
  std::vector<const ComputingRequest*> awaited_;
  std::vector<StepCandidate> candidates_;
  std::vector<StepItem> items_;
  std::vector<Part> parts_;  // the part of each item, with the index of the item in items_
  std::vector<WorkShare> works_;
  WorkTurns work_turns_;
  std::vector<float> scratch_;  // scratch rows of logits, [rows, vocab_size]
  AutomaticDefragmentation defragmentation_;
  bool has_idle_work_;
  std::optional<std::chrono::steady_clock::time_point> idle_from_;  // when idle work may begin
};

}  // namespace kvd
