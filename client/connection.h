// Connection: one session with a daemon: its socket, its rings, its requests in flight, and the
// threads that wait for answers.
//
// Owner: shared by Client, Sequence, Logits and Generation objects; the session ends when the last
// of these objects is destroyed. Every function may be called from any thread. One mutex guards the
// rings. One of the waiting threads, the leader, sleeps on the socket; the other waiting threads
// sleep on a condition variable.
//
// Invariants: only the leader reads the socket; a completion that was taken from the ring is in the
// request table; while `failure_` is set (until Renew clears it), every call that would have to
// wait returns the error `failure_`.
//
// A waiting thread tries to restore a lost connection for ConnectOptions::reconnect_timeout at most
// (connection_recovery.cc). The daemon, or its successor after a restart, finds the session by its
// token, and requests without a final answer are sent again in their original order. For callers, a
// restored connection is only a delay.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "client/event_descriptor.h"
#include "client/handshake.h"
#include "client/link.h"
#include "client/request_table.h"
#include "shm/verb_table.h"

namespace kvd {

// The payload of a request. The function `write` writes the payload directly into the request
// arena. The object `context` must outlive the call that sends the payload.
struct Payload {
  std::size_t byte_count = 0;
  void (*write)(const void* context, std::span<std::byte> out) = nullptr;
  const void* context = nullptr;
};
// Returns a payload that refers to `bytes`. The span object `bytes` must outlive the call that
// sends the payload.
Payload PayloadOf(const std::span<const std::byte>& bytes);

// What a client has received of the answer to a request of an earlier process of its session.
struct EarlierAttempt {
  RequestId request{};
  std::uint32_t received = 0;  // the value for wire::Submission::received
  TokenId last_token = 0;      // the last received token; not used if `received` is 0
};

class Connection {
 public:
  using Timeout = std::chrono::milliseconds;  // the time limit of a call; negative: no limit

  // Errors: those of ShakeHands.
  static Result<std::shared_ptr<Connection>> Open(const ConnectOptions& options);
  Connection(Handshake handshake, const ConnectOptions& options);
  // Sends the goodbye byte, so that the daemon does not wait for a reconnect, unless Leave was
  // called.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const SessionInfo& info() const { return info_; }
  Timeout call_timeout() const { return call_timeout_; }
  // Returns the descriptor of the live map; -1 if ConnectOptions::wants_map was not set.
  int map_descriptor() const { return first_map_.get(); }

  // Returns the limit for one request's payload, as granted by the daemon.
  std::uint64_t request_arena_bytes() const;

  // Returns the connection's socket, which a test can shut down.
  int socket_for_test() const;

  // After the session has failed, Renew starts a new session without sequences, and requests in
  // flight end with the failure. If the session has not failed, Renew has no effect. Errors: those
  // of ShakeHands; after an error, the session stays failed. REQUIRES: no other thread is in a
  // call.
  Status Renew();

  // Closes the connection without the goodbye byte: the session waits for another process with its
  // token (ConnectOptions::outlive_seconds), and the daemon stops the requests in flight after the
  // step in progress. Calls then fail with kDisconnected; destructors of the session's objects
  // change nothing. Received outputs stay readable. Renew opens a new session. Error:
  // kInvalidArgument (a forked process).
  Status Leave();

  // Submits a request and waits for its last completion. `output` (may be null) receives the
  // outputs of all pieces, concatenated. Errors: those of the daemon, kTooLarge (the payload is
  // larger than the arena), kTimeout (the request is abandoned, and may still be applied),
  // kDisconnected, kSessionLost (the daemon does not know the session: see Renew), kCorrupt,
  // kInvalidArgument (a forked process).
  Result<wire::Completion> Call(wire::Submission submission, const Payload& payload,
                                std::vector<std::byte>* output);

  // Submits a request without waiting. If the ring is full, the request is queued in the
  // connection; the next call that waits or submits sends the queued requests in order. Errors:
  // those of Call except kTimeout; kNoSpace also if RequestTable::kRequestsMax requests are in
  // flight or have answers that were not taken.
  Result<RequestId> Submit(wire::Submission submission, const Payload& payload, OutputMode mode);
  // Submits a request of an earlier process of this session again, with its id and as a retry, and
  // does not wait. The arguments and the payload must be those of the earlier process. Errors:
  // those of Submit; kInvalidArgument (the id is 0); kConflict (this process already has the
  // request in flight).
  Status Repeat(const EarlierAttempt& earlier, wire::Submission submission, const Payload& payload,
                OutputMode mode);
  // Waits for the answer of a request that was submitted with kCollect. Errors: those of Call,
  // which end the request, except for kTimeout; kNotFound (no such request).
  Result<wire::Completion> Finish(RequestId request, Timeout timeout,
                                  std::vector<std::byte>* output);
  // Submits a request whose answer is discarded. SubmitAndForget waits for room in the ring for at
  // most 100 ms.
  void SubmitAndForget(wire::Submission submission, const Payload& payload);

  // The next piece of an in-place request. A piece whose completion.flags lack kMore is the last
  // piece of its request. Any error of Next except kTimeout also ends the request. The caller must
  // pass a `ticket` other than 0 to Release. Errors: those of Call, and kNotFound (no such
  // request).
  struct Piece {
    wire::Completion completion;
    std::span<const std::byte> output;
    std::uint64_t ticket = 0;
  };
  Result<Piece> Next(RequestId request, Timeout timeout);
  // Releases the output with this ticket. Returns false if the ticket was already released or never
  // existed.
  bool Release(std::uint64_t ticket);

  // Returns a descriptor for an event loop; the descriptor stays the same for the life of the
  // connection. The descriptor is readable when WaitAny may return a request; a WaitAny that fails
  // with kTimeout makes the descriptor unreadable again. Errors: kIo, kNoSpace.
  Result<int> OpenEventDescriptor();

  // Waits until one of the requests has an answer or a piece to take, or has failed; returns the
  // index of this request. Errors: kTimeout, kNotFound (none of the requests exists),
  // kDisconnected.
  Result<std::size_t> WaitAny(std::span<const RequestId> requests, Timeout timeout);
  // Returns all requests that have an answer or a piece to take; none: the event descriptor is
  // unreadable until there may be one. For event loops with many requests. Errors: those with which
  // the session has failed. REQUIRES: OpenEventDescriptor was called.
  Result<std::vector<RequestId>> TakeReady();

  // Asks the daemon to cancel a request, which then ends with kCancelled. Returns false if the
  // request had already ended.
  Result<bool> Cancel(RequestId request);
  // Cancels a request and discards its outputs. Abandon ignores unknown requests.
  void Abandon(RequestId request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Deadline {
    bool is_set = false;
    Clock::time_point at;
    // The time that is left until the deadline; negative: no limit.
    std::chrono::nanoseconds left() const;
    bool has_passed() const;
  };

  static Deadline DeadlineOf(Timeout timeout);
  // Returns the time kRoomPoll from now, or `deadline` if `deadline` is earlier.
  static Deadline Soon(const Deadline& deadline);
  Status CheckProcess() const;
  // `earlier` (may be null): the attempt of an earlier process, whose id the request keeps; the
  // request is then always queued.
  Result<PendingRequest*> SubmitLocked(wire::Submission submission, const Payload& payload,
                                       OutputMode mode, const EarlierAttempt* earlier = nullptr)
      KVD_REQUIRES(mutex_);
  // REQUIRES: the final answer has arrived.
  Result<wire::Completion> TakeFinal(PendingRequest* request, std::vector<std::byte>* output)
      KVD_REQUIRES(mutex_);
  // Waits once and returns when a request may have an answer or a piece. Returns false if the
  // deadline has passed.
  Result<bool> WaitRound(const Deadline& deadline) KVD_REQUIRES(mutex_);
  // Waits once while the link is lost, and makes at most one attempt to restore the connection.
  Result<bool> RecoverRound(const Deadline& deadline) KVD_REQUIRES(mutex_);
  // Calls on_notice without the lock.
  void Notify(ConnectionNotice notice) KVD_REQUIRES(mutex_);
  // REQUIRES: no other thread is the leader, and the time of the next attempt has come.
  void AttemptToRecover(std::chrono::milliseconds time_max) KVD_REQUIRES(mutex_);
  // ArmEvents is called when no request has an answer or a piece to take. ArmEvents prepares
  // events_ to become readable when a request may have an answer or a piece. Returns false if a
  // request may already have one.
  bool ArmEvents() KVD_REQUIRES(mutex_);
  bool ArmEventsForRecovery() KVD_REQUIRES(mutex_);
  // Makes events_ watch the link that was just adopted.
  void WatchLink() KVD_REQUIRES(mutex_);
  // Wakes other threads and the event loop after a change that they may wait for.
  void TellOthers() KVD_REQUIRES(mutex_);
  // Waits until the leader reports a change, or the deadline passes.
  void FollowLeader(const Deadline& deadline) KVD_REQUIRES(mutex_);
  bool may_recover() const KVD_REQUIRES(mutex_);
  void LoseLink(const Error& why) KVD_REQUIRES(mutex_);
  void AdoptLink(Handshake handshake) KVD_REQUIRES(mutex_);
  // Writes requests from unsent_ into the ring until the ring has no more room.
  Status SendUnsent() KVD_REQUIRES(mutex_);
  void Send(PendingRequest& request, std::span<std::byte> room) KVD_REQUIRES(mutex_);
  void FailUnanswered() KVD_REQUIRES(mutex_);
  Link* FindLink(std::uint64_t ticket) KVD_REQUIRES(mutex_);
  void CountReceived(PendingRequest& request, const wire::Completion& completion,
                     std::span<const std::byte> output) const KVD_REQUIRES(mutex_);
  Result<bool> Pump() KVD_REQUIRES(mutex_);
  Status PumpAll() KVD_REQUIRES(mutex_);  // calls Pump and discards whether completions were taken
  Status Deliver(const wire::Completion& completion) KVD_REQUIRES(mutex_);
  // Returns false if the caller did not hold the output.
  bool ReleaseLocked(std::uint64_t ticket) KVD_REQUIRES(mutex_);
  void RingIfStalled() KVD_REQUIRES(mutex_);
  Status Failure() const KVD_REQUIRES(mutex_);
  void AbandonLocked(PendingRequest* request) KVD_REQUIRES(mutex_);
  void CancelLocked(RequestId request) KVD_REQUIRES(mutex_);
  static Error ErrorOf(const PendingRequest& request);

  const std::uint64_t fork_count_;
  ConnectOptions options_ KVD_GUARDED_BY(mutex_);  // the options that the next handshake sends
  // The values of the last welcome; only Renew changes them.
  SessionInfo info_;
  const Timeout call_timeout_;
  UniqueFd first_map_;

  mutable Mutex mutex_;
  CondVar changed_;  // notified when requests have changed or no thread is the leader
  std::shared_ptr<Link> link_ KVD_GUARDED_BY(mutex_);
  // Earlier links with outputs that the caller still holds; the key is Link::number.
  std::map<std::uint64_t, std::shared_ptr<Link>> old_links_ KVD_GUARDED_BY(mutex_);
  RequestTable requests_ KVD_GUARDED_BY(mutex_);
  // The ids of requests in `requests_` that have not been written into the ring yet, in the order
  // of submission.
  std::deque<RequestId> unsent_ KVD_GUARDED_BY(mutex_);
  // True while a thread, the leader, sleeps on the socket or restores the connection.
  bool has_leader_ KVD_GUARDED_BY(mutex_) = false;
  // Number of threads that sleep on changed_.
  std::size_t follower_count_ KVD_GUARDED_BY(mutex_) = 0;
  // True while link_ is lost; lost_at_, next_attempt_ and pause_ then describe the attempts to
  // restore the connection.
  bool is_lost_ KVD_GUARDED_BY(mutex_) = false;
  // True after on_notice has told of the loss, until the connection is restored.
  bool has_told_loss_ KVD_GUARDED_BY(mutex_) = false;
  // True after Leave, until Renew opens a new session.
  bool has_left_ KVD_GUARDED_BY(mutex_) = false;
  Clock::time_point lost_at_ KVD_GUARDED_BY(mutex_);
  Clock::time_point next_attempt_ KVD_GUARDED_BY(mutex_);
  std::chrono::milliseconds pause_ KVD_GUARDED_BY(mutex_){0};
  std::optional<Error> failure_ KVD_GUARDED_BY(mutex_);
  // Null if OpenEventDescriptor was never called.
  std::unique_ptr<EventDescriptor> events_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
