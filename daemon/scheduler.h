// Scheduler: the computing requests of all clients, and the engine thread's loop over them:
// continuous batching.
//
// Owner: main. Threads: Run (or RunOnce) belongs to the engine thread; everything else may be
// called from any thread and never waits for a step. One computing request per sequence at a time.
// Invariants: a request is in `requests_` and its sequence in `computing_` from Submit until its
// final answer is known, so that whoever has read that answer finds the sequence free. Requests
// that wait for room in their client's segments are skipped; the io thread calls WakeUp when room
// may have come.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "daemon/computing_request.h"
#include "daemon/prefix_sharing.h"
#include "daemon/step_clock.h"
#include "daemon/step_planner.h"
#include "engine/engine.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

struct SchedulerOptions {
  std::size_t prefill_chunk_tokens = 256;
  // What a step beside decode rows should last at most: prompts get smaller chunks; 0: any time.
  double step_seconds_max = 0.0;
  // Floats of the scratch rows that sampling in the daemon reads; at least one row is always there.
  std::size_t scratch_floats_max = (64u << 20) / sizeof(float);
  // Defragments by itself when more than this part of the used blocks is waste; 0: never.
  double defrag_threshold = 0.0;
  // Asked before every step for every request: whether its uid may append that many more tokens to
  // the sequence.
  std::function<Status(const ComputingRequest&, std::size_t tokens)> admit{};
  PromptCache* prompt_cache = nullptr;  // outlives the scheduler; null: there is none
};

class Scheduler {
 public:
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
  struct RequestKey {
    SessionId session;
    RequestId request;
    friend bool operator==(const RequestKey&, const RequestKey&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const RequestKey& key) const {
      return static_cast<std::size_t>(static_cast<std::uint64_t>(key.session) *
                                          0x9e3779b97f4a7c15u ^
                                      static_cast<std::uint64_t>(key.request));
    }
  };
  // A request in a step: the item, the request, its scratch row.
  struct Part {
    std::shared_ptr<ComputingRequest> request;
    float* row = nullptr;
    std::size_t candidate = 0;  // index
  };

  void TakeIn();
  bool HandleCancels();
  bool RunLoners();
  // A slice of the automatic defragmentation, if one is on or due.
  bool DefragmentSome();
  bool Step();
  bool FillStep();
  void ListCandidates();
  void Compute();
  std::size_t TokensNow(const ComputingRequest& request, std::size_t tokens) const;
  void Settle();                                 // flushes, forgets what has ended
  void Forget(const ComputingRequest& request);  // from the maps

  Engine& engine_;
  const std::uint32_t vocab_size_;
  const SchedulerOptions options_;

  mutable std::mutex mutex_;  // guards up to the next blank line
  std::condition_variable wake_;
  std::vector<std::shared_ptr<ComputingRequest>> submitted_;
  std::unordered_map<RequestKey, std::shared_ptr<ComputingRequest>, KeyHash> requests_;
  std::unordered_map<SequenceHandle, std::shared_ptr<ComputingRequest>> computing_;
  bool woken_ = false;
  bool stopping_ = false;

  std::atomic<std::uint64_t> tokens_sampled_ = 0;

  // Engine thread only.
  StepPlanner planner_;
  StepClock clock_;
  PrefixSharing sharing_;
  std::vector<std::shared_ptr<ComputingRequest>> active_;  // in order of arrival
  std::vector<const ComputingRequest*> awaited_;           // leaders of those that wait; sorted
  std::vector<StepCandidate> candidates_;
  std::vector<StepItem> items_;
  std::vector<Part> parts_;     // parallel to items_
  std::vector<float> scratch_;  // [rows, vocab_size]
  std::optional<Defragmentation> defragmentation_;
  std::uint64_t rounds_ = 0;
  std::uint64_t next_waste_check_ = 0;  // round
};

}  // namespace kvd
