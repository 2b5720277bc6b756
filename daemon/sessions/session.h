// Session: the daemon's state of one connected client: its identity, its two segments and its
// socket. A Session only moves bytes; the service decides what to do with them.
//
// Owner: shared by the io thread (server.cc) and the computing requests that the session has in
// flight. The segments are unmapped when the last owner releases the session.
//
// Threads: only the io thread takes submissions and calls Sleep and WakeUp; functions without a
// named thread may be called from any thread. The io thread and the engine thread write completions
// under the session's mutex. The session's mutex is held while an answer is copied, but never while
// a payload is copied or a step runs. No function of Session waits for the client.
//
// Invariants: each submission that is taken holds one completion slot until its final answer, so a
// final answer waits only for output space, never for a slot. Output pieces are published in the
// order of their allocation. Logits are allocated before a step and published after it. While
// logits are in flight, small answers use spare pieces that were allocated before the logits, so
// that small answers of metadata verbs do not wait for the step; larger answers wait for the end of
// the step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "daemon/sessions/resumption.h"
#include "daemon/sessions/shares.h"
#include "shm/channel.h"
#include "shm/peer_socket.h"
#include "shm/wire_messages.h"

namespace kvd {

struct SessionIdentity {
  SessionId id = SessionId::kNone;
  PeerCredentials peer;
  OwnerId owner{};   // the peer's uid, or a tenant of it
  std::string name;  // the client's name from the hello; printable ASCII
  bool watches_map = false;
  std::uint64_t cache_salt = 0;  // salt of the namespace of the session's sequences
  bool shares_prefixes = true;
  // The stored record of the session; nullopt if the session cannot be resumed.
  std::optional<StoredSession> stored{};
  // True: the client reconnects after a restart of the daemon (wire::kHelloReturns).
  bool returns = false;

  bool goes_on_elsewhere() const { return returns && stored; }
};

// The shares that are counted for a session's owner, from the hello to the end of the session.
struct SessionShares {
  // The account of the session's owner; null: no resource is counted.
  std::shared_ptr<OwnerAccount> account;
  Share connection{};
  // If the owner is a tenant, its connection also counts for its uid.
  Share connection_of_uid{};
  Share outliving{};  // 1 if the session outlives its process
  Share request_arena{};
  Share result_arena{};
};

class Session {
 public:
  // `pump_wanted` is called, from any thread and without a lock, when the io thread must handle
  // this session again; the function posts a call of SessionPump::Pump.
  Session(SessionIdentity identity, UniqueFd socket, DaemonChannel channel,
          std::function<void(SessionId)> pump_wanted, SessionShares shares = {});

  SessionId id() const { return identity_.id; }
  OwnerId owner() const { return identity_.owner; }
  const SessionIdentity& identity() const { return identity_; }
  // Returns the account of the session's owner, which may be null.
  const std::shared_ptr<OwnerAccount>& account() const { return account_; }
  int socket() const { return socket_.get(); }
  std::size_t output_bytes_max() const { return output_bytes_max_; }
  // The numbers of tokens computed and sampled for this session's requests. Any thread may read
  // these numbers; only the engine thread calls CountTokens.
  std::uint64_t tokens_computed() const { return tokens_computed_.load(std::memory_order_relaxed); }
  std::uint64_t tokens_sampled() const { return tokens_sampled_.load(std::memory_order_relaxed); }
  void CountTokens(std::uint64_t computed, std::uint64_t sampled) {
    tokens_computed_.fetch_add(computed, std::memory_order_relaxed);
    tokens_sampled_.fetch_add(sampled, std::memory_order_relaxed);
  }

  // ---- io thread
  // Takes the next submission. Returns false if no submission waits, or no
  // completion slot is free for its answer. For `tokens_max` and `admit` see
  // SubmissionConsumer::Take. The submission counts as a request of the session's owner until its
  // final answer. If the owner has too many requests, the submission's `check` is the error.
  // Errors: kCorrupt (a cursor); the caller closes the session.
  Result<bool> TakeSubmission(ReceivedSubmission& into,
                              std::uint64_t tokens_max = std::numeric_limits<std::uint64_t>::max(),
                              const SubmissionConsumer::Admit& admit = {});
  // Does the same as SubmissionConsumer::Peek.
  Result<std::optional<wire::Submission>> PeekSubmission(std::uint32_t ahead);
  // Reads the client's cursors. Errors: kCorrupt (the caller closes the session).
  Status Refresh();
  // Sets the flag that makes the client ring the doorbell after a submission. If an answer waits
  // for room, the client also rings when it releases output. `submissions_seen`: see
  // DaemonChannel::PrepareToSleep. Returns false if a submission or room has arrived in the
  // meantime, and the caller must handle the session again. Errors: kCorrupt.
  Result<bool> Sleep(bool answer_waits, std::uint32_t submissions_seen = 0);
  void WakeUp();
  // Returns whether a computing request waits for room and room may have become free; the caller
  // then wakes the scheduler.
  bool TakeRoomForComputing();
  // Returns whether submissions wait that TakeSubmission cannot take because no completion slot is
  // free.
  bool submission_waits() const { return submission_waits_; }

  // ---- any thread
  // TryMore and TryFinal write a completion with this output and ring the doorbell if the client
  // sleeps. TryMore sets kMore; TryFinal writes the final completion. Both functions return false,
  // without an effect, if there is no room at the moment, and return true, without writing, if the
  // session is closed. REQUIRES: output.size() <= output_bytes_max().
  bool TryMore(const wire::Completion& completion, std::span<const std::byte> output);
  bool TryFinal(const wire::Completion& completion, std::span<const std::byte> output);

  // ---- engine thread
  // Reserves space for up to `rows_max` rows of `row_bytes`, as many as fit at
  // the moment. The caller publishes (or abandons) the space after the step, in the order of
  // reservation. The completion for the reserved rows is final unless `more_follows` is set or
  // fewer than rows_max rows fit. Returns nullopt if no row fits, or if the completion is not final
  // and no slot is free for it. REQUIRES: row_bytes <= output_bytes_max().
  struct LogitsSpace {
    OutputPiece piece;
    std::size_t rows = 0;
    bool holds_slot = false;  // true: a slot is reserved for a completion that is not final
  };
  std::optional<LogitsSpace> ReserveLogits(std::size_t row_bytes, std::size_t rows_max,
                                           bool more_follows);
  void PublishLogits(const LogitsSpace& space, const wire::Completion& completion);
  void AbandonLogits(const LogitsSpace& space);
  // WantRoom is called when a computing request finds no room. After WantRoom, the client rings the
  // doorbell at its next release of output, and the io thread handles this doorbell.
  void WantRoom();

  // Close is called when the connection is closed; later completions are discarded. A closed
  // session no longer counts as a connection of its owner. The session's arenas and requests count
  // until the last request in flight releases the session. Pieces of logits in flight stay writable
  // after Close.
  void Close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kSpareCount = 8;
  static constexpr std::size_t kSpareBytes = 512;

  // submissions() needs no mutex, because only the io thread uses the submissions, which share no
  // data with the completions.
  SubmissionConsumer& submissions() KVD_NO_THREAD_SAFETY_ANALYSIS { return channel_.submissions(); }
  Status RefreshLocked() KVD_REQUIRES(mutex_);
  bool Try(const wire::Completion& completion, std::span<const std::byte> output, bool is_final)
      KVD_REQUIRES(mutex_);
  std::optional<OutputPiece> PieceFor(std::size_t output_bytes) KVD_REQUIRES(mutex_);
  // Records that a piece of logits is no longer in flight. Returns true if that piece was the last
  // one in flight and a small answer has waited for a spare piece.
  bool EndInFlightPiece() KVD_REQUIRES(mutex_);
  void AbandonSpares() KVD_REQUIRES(mutex_);
  void PublishAndRing() KVD_REQUIRES(mutex_);
  // Gives back the request's share; EndRequest is called before the final answer becomes visible to
  // the client.
  void EndRequest() KVD_REQUIRES(mutex_);

  const SessionIdentity identity_;
  const UniqueFd socket_;
  const std::function<void(SessionId)> pump_wanted_;
  std::size_t output_bytes_max_ = 0;
  const std::shared_ptr<OwnerAccount> account_;
  std::atomic<bool> closed_ = false;
  std::atomic<std::uint64_t> tokens_computed_ = 0;
  std::atomic<std::uint64_t> tokens_sampled_ = 0;
  bool submission_waits_ = false;  // used by the io thread only

  Mutex mutex_;
  // The mutex guards the channel except its submissions.
  DaemonChannel channel_ KVD_GUARDED_BY(mutex_);
  SessionShares shares_ KVD_GUARDED_BY(mutex_);
  // The share that counts the requests that were taken and have no final answer yet.
  Share requests_ KVD_GUARDED_BY(mutex_);
  // Number of requests that exceed the owner's share: these requests are not counted in requests_,
  // and are answered with the error of their `check`.
  std::uint64_t refused_requests_ KVD_GUARDED_BY(mutex_) = 0;
  // Number of free completion slots that are set aside for logits that are not final.
  std::uint32_t held_slots_ KVD_GUARDED_BY(mutex_) = 0;
  // Number of pieces of logits that are reserved and not yet published.
  std::uint32_t pieces_in_flight_ KVD_GUARDED_BY(mutex_) = 0;
  // True: a small answer found no spare piece while logits were in flight.
  bool small_answer_waits_ KVD_GUARDED_BY(mutex_) = false;
  // The io thread and the engine thread both read the client's cursors, and one may find room that
  // the other is waiting for. The following three flags inform the thread that did not read the
  // cursors, because that thread sees no further change of the cursors.
  // room_unseen_: the engine thread has found room since the io thread's last Refresh.
  bool room_unseen_ KVD_GUARDED_BY(mutex_) = false;
  bool room_wanted_ KVD_GUARDED_BY(mutex_) = false;  // true: a computing request waits for room
  // True: room has become free, and the computing requests that wait for room were not yet woken.
  bool room_changed_ KVD_GUARDED_BY(mutex_) = false;
  // Pieces allocated before the logits in flight; the next piece to use is at the back.
  std::vector<OutputPiece> spares_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
