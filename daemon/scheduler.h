// Scheduler: the computing requests of all clients, and the engine thread's loop over them:
// continuous batching.
//
// Owner: main. Threads: Run (or RunOnce) belongs to the engine thread; everything else may be
// called from any thread and never waits for a step. One computing request per sequence at a time.
// Invariants: a request is in `requests_` and its sequence in `computing_` from Submit until its
// final answer is known, so that whoever has read that answer finds the sequence free. Requests
// that wait for room in their client's segments are skipped; the io thread calls WakeUp when room
// may have come.
// Work that is no step (ComputingRequest::work_left, and the preparation of a sequence for a step) is
// dealt out by the same plan and done behind the step. Of it at most kWorksMax requests are begun at a time, one of each user: what they hold
// (buffers of a text, cells, state slots) is bounded, and the others wait for their turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "daemon/computing_request.h"
#include "daemon/prefix_sharing.h"
#include "daemon/step_clock.h"
#include "daemon/step_planner.h"
#include "engine/engine.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/mutex.h"

namespace kvd {

struct SchedulerOptions {
  std::size_t prefill_chunk_tokens = 256;
  // What a step beside decode rows should last at most: prompts get smaller chunks; 0: any time.
  double step_seconds_max = 0.0;
  // Floats of the scratch rows that sampling in the daemon reads; at least one row is always there.
  std::size_t scratch_floats_max = (64u << 20) / sizeof(float);
  // Defragments by itself when more than this part of the used blocks is waste; 0: never.
  double defrag_threshold = 0.0;
  PromptCache* prompt_cache = nullptr;  // outlives the scheduler; null: there is none
  // What steps and work are timed by.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class Scheduler {
 public:
  static constexpr std::size_t kWorksMax = 4;

  Scheduler(Engine& engine, std::uint32_t vocab_size, SchedulerOptions options);

  // Errors: kBusy (the sequence is being computed; names the request), kInvalidArgument (the
  // session has a request of that id in flight). The request is unchanged then, and the caller
  // answers.
  Status Submit(std::unique_ptr<ComputingRequest> request);
  // Whether the session has such a computing request; it ends kCancelled.
  bool Cancel(SessionId session, RequestId request);
  void CancelSession(SessionId session);
  // Whether a request of the session has not ended yet, be it cancelled.
  bool HasRequests(SessionId session) const;
  void CancelSequence(SequenceHandle sequence);
  // kBusy if a computing request has the sequence.
  Status CheckIdle(SequenceHandle sequence) const;
  // Something changed that stalled requests wait for.
  void WakeUp();

  // Runs until Stop; then ends every request with kCancelled, but those that go on with another
  // daemon.
  void Run();
  void Stop();
  // Forgets every request without an answer. What they would undo is undone. REQUIRES: Run does not
  // run.
  void DropRequests();
  // One round: takes in what was submitted, at most one step, answers. False: there was nothing to
  // do.
  bool RunOnce();

  const PrefixSharing& prefix_sharing() const { return sharing_; }
  std::uint64_t tokens_sampled() const { return tokens_sampled_.load(std::memory_order_relaxed); }

 private:
  // A request in a step: the item, the request, its scratch row.
  struct Part {
    std::shared_ptr<ComputingRequest> request;
    float* row = nullptr;
    std::size_t candidate = 0;  // index
  };

  // A request's share of work; null: the automatic defragmentation's.
  struct WorkShare {
    std::shared_ptr<ComputingRequest> request;
    std::size_t prompt_tokens = 0;
    std::size_t candidate = 0;  // index
  };
  using RequestsOfSession = std::unordered_map<RequestId, std::shared_ptr<ComputingRequest>>;

  void TakeIn();
  bool HandleCancels();
  bool RunLoners();
  // Begins the automatic defragmentation if one is due.
  void LookForWaste();
  bool Step();
  // Chooses who computes, and fills items_, parts_ and works_.
  void FillStep();
  Status Admit(ComputingRequest& request);
  bool FillItems(std::span<const StepShare> shares);  // true: some have stalled that did not before
  void ListCandidates();
  // Which sequences must be prepared before their requests may take part in a step.
  void LookForPreparations();
  // Of the request's own work, or of its sequence's preparation.
  static std::size_t WorkLeft(const ComputingRequest& request);
  static WorkKind WorkKindOf(const ComputingRequest& request);
  // Lets work begin whose turn it is.
  void BeginWork();
  bool DoWork();
  void DoWorkOf(const WorkShare& share);
  void DoRequestsWork(ComputingRequest& request, std::size_t tokens);
  // Returns the cells that were asked for.
  std::size_t DefragmentSome(std::size_t cells);
  void Compute();
  std::size_t TokensNow(const ComputingRequest& request, std::size_t tokens) const;
  void Settle();                           // flushes, forgets what has ended
  void Forget(ComputingRequest& request);  // from the maps

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

  // Engine thread only.
  StepPlanner planner_;
  StepClock clock_;
  PrefixSharing sharing_;
  std::vector<std::shared_ptr<ComputingRequest>> active_;  // in order of arrival
  std::vector<const ComputingRequest*> awaited_;           // leaders of those that wait; sorted
  std::vector<StepCandidate> candidates_;
  std::vector<StepItem> items_;
  std::vector<Part> parts_;  // parallel to items_
  std::vector<WorkShare> works_;
  std::unordered_map<std::uint32_t, std::uint64_t> work_turns_;  // by uid: when its last work began
  std::uint64_t work_turn_ = 0;
  std::vector<float> scratch_;  // [rows, vocab_size]
  std::optional<Defragmentation> defragmentation_;
  std::uint64_t rounds_ = 0;
  std::uint64_t next_waste_check_ = 0;  // round
};

}  // namespace kvd
