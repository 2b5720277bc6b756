// Connection: one session with a daemon: its socket, its rings, the requests in flight, and
// waiting.
//
// Owner: shared by Client, Sequence, Logits and Generation objects; the session ends with the last.
// Every call may come from any thread: one mutex guards the rings, and of the threads that wait one
// sleeps on the socket for all (the leader) while the others sleep on a condition variable.
//
// Invariants: only the leader reads the socket; a completion that was taken from its ring is in the
// request table; `failure_` ends every call that would have to wait, until Renew.
//
// A connection that is lost is made again (connection_recovery.cc) by whoever waits, for a bounded
// time: the daemon, or another one that has taken over its state, finds the session by its token,
// and what has no final answer is sent again, in order. Callers notice the time that it takes.
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

#include "client/event_descriptor.h"
#include "client/handshake.h"
#include "client/link.h"
#include "client/request_table.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/mutex.h"
#include "shm/verb_table.h"

namespace kvd {

// What a request carries, written straight into the arena. `context` outlives the call.
struct Payload {
  std::size_t byte_count = 0;
  void (*write)(const void* context, std::span<std::byte> out) = nullptr;
  const void* context = nullptr;
};
// A view of bytes as payload. `bytes` itself (the span) must outlive the call.
Payload PayloadOf(const std::span<const std::byte>& bytes);

class Connection {
 public:
  using Timeout = std::chrono::milliseconds;  // negative: for ever

  // Errors: ShakeHands'.
  static Result<std::shared_ptr<Connection>> Open(const ConnectOptions& options);
  Connection(Handshake handshake, const ConnectOptions& options);
  // Says goodbye: the daemon does not wait for this client.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const SessionInfo& info() const { return info_; }
  Timeout call_timeout() const { return call_timeout_; }
  // The map's; -1 where ConnectOptions::wants_map was not set.
  int map_descriptor() const { return first_map_.get(); }

  // What one request may carry, as the daemon has granted it.
  std::uint64_t request_arena_bytes() const;

  // The connection's socket, to be cut.
  int socket_for_test() const;

  // Goes on as a new session after a failure, of which nothing is left: no sequence, no request in
  // flight (those end with the failure). Nothing happens where there was none. REQUIRES: no other
  // thread is in a call. Errors: ShakeHands'; the failure stays then.
  Status Renew();

  // Submits and waits for the last completion. `output`: takes all output, pieces put together;
  // may be null. Errors: the daemon's, kNoSpace (the payload can never fit), kTimeout (the request
  // is abandoned, and may still be applied), kDisconnected, kSessionLost (the daemon that came back
  // does not know the session: see Renew), kCorrupt, kInvalidArgument (a forked process).
  Result<wire::Completion> Call(wire::Submission submission, const Payload& payload,
                                std::vector<std::byte>* output);

  // Submits without waiting. A request that finds no room in the ring is kept here and sent, in
  // order, by the next call that waits or submits. Errors: as Call but kTimeout; also kNoSpace (too
  // many requests are in flight or not taken).
  Result<RequestId> Submit(wire::Submission submission, const Payload& payload, OutputMode mode);
  // Waits for the answer of a request that was submitted to be collected. Errors: as Call, which end
  // the request, but kTimeout, which does not; kNotFound (no such request).
  Result<wire::Completion> Finish(RequestId request, Timeout timeout,
                                  std::vector<std::byte>* output);
  // Submits and wants no answer. Does not wait for room longer than a moment.
  void SubmitAndForget(wire::Submission submission, const Payload& payload);

  // The next piece of an in-place request. completion.flags says whether it is the last (no kMore):
  // the request is over then, also after an error other than kTimeout. `ticket` must be released
  // if not 0. Errors: as Call, and kNotFound (no such request).
  struct Piece {
    wire::Completion completion;
    std::span<const std::byte> output;
    std::uint64_t ticket = 0;
  };
  Result<Piece> Next(RequestId request, Timeout timeout);
  // Gives an output back. False: it was not held.
  bool Release(std::uint64_t ticket);

  // A descriptor for an event loop; the same one every time, this connection's. Readable when WaitAny
  // may find something; a WaitAny that fails with kTimeout makes it unreadable until then. Errors:
  // kIo, kNoSpace.
  Result<int> OpenEventDescriptor();

  // Waits until one of the requests has something to take (or failed); its index. Errors: kTimeout,
  // kNotFound (none of them exists), kDisconnected.
  Result<std::size_t> WaitAny(std::span<const RequestId> requests, Timeout timeout);

  // Asks the daemon to end a request; it then ends kCancelled. False: it had ended before.
  Result<bool> Cancel(RequestId request);
  // Cancels it and throws away what it still says. Unknown requests are ignored.
  void Abandon(RequestId request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Deadline {
    bool is_set = false;
    Clock::time_point at;
    std::chrono::nanoseconds left() const;  // negative: for ever
    bool has_passed() const;
  };

  static Deadline DeadlineOf(Timeout timeout);
  // In a moment, at the latest at `deadline`.
  static Deadline Soon(const Deadline& deadline);
  Status CheckProcess() const;
  Result<PendingRequest*> SubmitLocked(wire::Submission submission, const Payload& payload,
                                       OutputMode mode) KVD_REQUIRES(mutex_);
  // REQUIRES: its final answer has come.
  Result<wire::Completion> TakeFinal(PendingRequest* request, std::vector<std::byte>* output)
      KVD_REQUIRES(mutex_);
  // One round of waiting: returns when something may have changed. False: the deadline passed.
  Result<bool> WaitRound(const Deadline& deadline) KVD_REQUIRES(mutex_);
  // The same with the link lost: one attempt to get another.
  Result<bool> RecoverRound(const Deadline& deadline) KVD_REQUIRES(mutex_);
  // REQUIRES: no other thread leads, and the time of the next attempt has come.
  void AttemptToRecover(std::chrono::milliseconds time_max) KVD_REQUIRES(mutex_);
  // Nothing is there now: events_ shall be readable when that may have changed. False: it has changed
  // already.
  bool ArmEvents() KVD_REQUIRES(mutex_);
  bool ArmEventsForRecovery() KVD_REQUIRES(mutex_);
  // Of the link that was just adopted.
  void WatchLink() KVD_REQUIRES(mutex_);
  // Something has changed that other threads, or an event loop, may wait for.
  void TellOthers() KVD_REQUIRES(mutex_);
  // Waits until the thread that leads has news, or the deadline passes.
  void FollowLeader(const Deadline& deadline) KVD_REQUIRES(mutex_);
  bool may_recover() const KVD_REQUIRES(mutex_);
  void LoseLink(const Error& why) KVD_REQUIRES(mutex_);
  void AdoptLink(Handshake handshake) KVD_REQUIRES(mutex_);
  // Sends what waits in unsent_, as far as there is room.
  Status SendUnsent() KVD_REQUIRES(mutex_);
  void Send(PendingRequest& request, std::span<std::byte> room) KVD_REQUIRES(mutex_);
  void FailUnanswered() KVD_REQUIRES(mutex_);
  Link* FindLink(std::uint64_t ticket) KVD_REQUIRES(mutex_);
  static void CountReceived(PendingRequest& request, const wire::Completion& completion,
                            std::span<const std::byte> output);
  Result<bool> Pump() KVD_REQUIRES(mutex_);
  Status PumpAll() KVD_REQUIRES(mutex_);  // whether there was something or not
  Status Deliver(const wire::Completion& completion) KVD_REQUIRES(mutex_);
  bool ReleaseLocked(std::uint64_t ticket) KVD_REQUIRES(mutex_);  // false: it was not held
  void RingIfStalled() KVD_REQUIRES(mutex_);
  Status Failure() const KVD_REQUIRES(mutex_);
  void AbandonLocked(PendingRequest* request) KVD_REQUIRES(mutex_);
  void CancelLocked(RequestId request) KVD_REQUIRES(mutex_);
  static Error ErrorOf(const PendingRequest& request);

  const std::uint64_t fork_count_;
  ConnectOptions options_ KVD_GUARDED_BY(mutex_);  // of the next handshake
  SessionInfo info_;                               // changed by Renew
  const Timeout call_timeout_;
  UniqueFd first_map_;

  mutable Mutex mutex_;
  CondVar changed_;  // requests moved on, or the lead is free
  std::shared_ptr<Link> link_ KVD_GUARDED_BY(mutex_);
  // By number; outputs of them are held.
  std::map<std::uint64_t, std::shared_ptr<Link>> old_links_ KVD_GUARDED_BY(mutex_);
  RequestTable requests_ KVD_GUARDED_BY(mutex_);
  // In the table, and not in the ring yet; in order.
  std::deque<RequestId> unsent_ KVD_GUARDED_BY(mutex_);
  // A thread sleeps on the socket, or makes a connection.
  bool has_leader_ KVD_GUARDED_BY(mutex_) = false;
  std::size_t follower_count_ KVD_GUARDED_BY(mutex_) = 0;  // threads that sleep on changed_
  // link_ is dead; what follows is about that.
  bool is_lost_ KVD_GUARDED_BY(mutex_) = false;
  Clock::time_point lost_at_ KVD_GUARDED_BY(mutex_);
  Clock::time_point next_attempt_ KVD_GUARDED_BY(mutex_);
  std::chrono::milliseconds pause_ KVD_GUARDED_BY(mutex_){0};
  std::optional<Error> failure_ KVD_GUARDED_BY(mutex_);
  std::unique_ptr<EventDescriptor> events_ KVD_GUARDED_BY(mutex_);  // null: not asked for
};

}  // namespace kvd
