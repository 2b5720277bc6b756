// Session: one connected client as the daemon sees it: who it is, its two segments, its socket.
// Bytes only, no policy.
//
// Owner: shared by the io thread (server.cc) and by the computing requests that it has in flight;
// its segments are unmapped when the last of them lets go. Threads: submissions, Sleep and WakeUp
// belong to the io thread; the rest may be called from any thread: completions are written by the io
// thread and the engine thread under the session's own mutex, which is held for the copy of an
// answer, never for that of a payload and never across a computing step. Nothing here ever blocks on
// the client.
//
// Invariants. Every submission taken holds one completion slot until its final answer, so a final
// answer waits for output space alone. Output pieces are published in the order of their
// allocation: while logits are in flight (allocated before a step, published after it) small
// answers use spare pieces that were allocated before them, so that metadata answers do not wait
// for a step; larger ones wait for its end.
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

#include "daemon/session_note.h"
#include "daemon/shares.h"
#include "shm/channel.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/mutex.h"
#include "shm/peer_credentials.h"
#include "shm/unique_fd.h"
#include "shm/wire_messages.h"

namespace kvd {

struct SessionIdentity {
  SessionId id = SessionId::kNone;
  PeerCredentials peer;
  std::string name;  // printable, from hello
  bool watches_map = false;
  std::uint64_t cache_salt = 0;  // of the namespace of its sequences
  bool shares_prefixes = true;
  // What is stored of it; nothing if it cannot be taken up again.
  std::optional<StoredSession> stored{};
  bool returns = false;  // its client comes back by itself when the daemon is started again

  bool goes_on_elsewhere() const { return returns && stored; }
};

// What a session is counted for, from its hello to its end.
struct SessionShares {
  std::shared_ptr<OwnerAccount> account;  // null: nothing is counted
  Share connection{};
  Share request_arena{};
  Share result_arena{};
};

class Session {
 public:
  // `room_wanted` is called, from any thread and under no lock, when something of this session
  // waits that the io thread must look at again: it posts a call of the server's pump.
  Session(SessionIdentity identity, UniqueFd socket, DaemonChannel channel,
          std::function<void(SessionId)> pump_wanted, SessionShares shares = {});

  SessionId id() const { return identity_.id; }
  std::uint32_t uid() const { return identity_.peer.uid; }
  const SessionIdentity& identity() const { return identity_; }
  // Of its owner; may be null.
  const std::shared_ptr<OwnerAccount>& account() const { return account_; }
  int socket() const { return socket_.get(); }
  std::size_t output_bytes_max() const { return output_bytes_max_; }
  // Tokens that its requests have had computed and sampled. Any thread; CountTokens: engine thread.
  std::uint64_t tokens_computed() const { return tokens_computed_.load(std::memory_order_relaxed); }
  std::uint64_t tokens_sampled() const { return tokens_sampled_.load(std::memory_order_relaxed); }
  void CountTokens(std::uint64_t computed, std::uint64_t sampled) {
    tokens_computed_.fetch_add(computed, std::memory_order_relaxed);
    tokens_sampled_.fetch_add(sampled, std::memory_order_relaxed);
  }

  // ---- io thread
  // The next submission, if there is one and a completion slot for its answer. `tokens_max` and
  // `admit`: SubmissionConsumer::Take. It counts as a request of the session's owner until its
  // final answer; one too many has that error as its check. Errors: kCorrupt (a cursor): close it.
  Result<bool> TakeSubmission(ReceivedSubmission& into,
                              std::uint64_t tokens_max = std::numeric_limits<std::uint64_t>::max(),
                              const SubmissionConsumer::Admit& admit = {});
  // SubmissionConsumer::Peek.
  Result<std::optional<wire::Submission>> PeekSubmission(std::uint32_t ahead);
  // Reads the client's cursors. Errors: kCorrupt: close it.
  Status Refresh();
  // Sets the flag that makes the client ring, asking for rings on releases too if something waits
  // for room. `submissions_seen`: DaemonChannel::PrepareToSleep. False: something came meanwhile, look
  // again. Errors: kCorrupt.
  Result<bool> Sleep(bool answer_waits, std::uint32_t submissions_seen = 0);
  void WakeUp();
  // Whether a computing request waits for room and some may have come: then the caller wakes the
  // scheduler.
  bool TakeRoomForComputing();
  // Whether submissions wait that TakeSubmission will not take for want of a slot.
  bool submission_waits() const { return submission_waits_; }

  // ---- any thread
  // Writes a completion with this output and rings if the client sleeps. False: no room now,
  // nothing happened. True also when the session is closed. REQUIRES: output.size() <=
  // output_bytes_max().
  bool TryMore(const wire::Completion& completion, std::span<const std::byte> output);
  bool TryFinal(const wire::Completion& completion, std::span<const std::byte> output);

  // ---- engine thread
  // Space for up to `rows_max` rows of `row_bytes`, as many as fit now, to be published (or
  // abandoned) after the step, in the order of reservation. The answer is final unless
  // `more_follows` or fewer rows than rows_max have room. nullopt: no room for one row, or no slot
  // for an answer that is not final. REQUIRES: row_bytes <= output_bytes_max().
  struct LogitsSpace {
    OutputPiece piece;
    std::size_t rows = 0;
    bool holds_slot = false;  // for an answer that is not final
  };
  std::optional<LogitsSpace> ReserveLogits(std::size_t row_bytes, std::size_t rows_max,
                                           bool more_follows);
  void PublishLogits(const LogitsSpace& space, const wire::Completion& completion);
  void AbandonLogits(const LogitsSpace& space);
  // A computing request found no room: makes sure that the io thread hears of the client's next
  // release.
  void WantRoom();

  // The client is gone: later completions are discarded, and the owner's shares are given back.
  // Pieces in flight stay writable.
  void Close();
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kSpareCount = 8;
  static constexpr std::size_t kSpareBytes = 512;

  // Only the io thread uses them, and they share nothing with completions(): they need no mutex.
  SubmissionConsumer& submissions() KVD_NO_THREAD_SAFETY_ANALYSIS { return channel_.submissions(); }
  Status RefreshLocked() KVD_REQUIRES(mutex_);
  bool Try(const wire::Completion& completion, std::span<const std::byte> output, bool is_final)
      KVD_REQUIRES(mutex_);
  std::optional<OutputPiece> PieceFor(std::size_t output_bytes) KVD_REQUIRES(mutex_);
  bool EndInFlightPiece() KVD_REQUIRES(mutex_);  // true: an answer had waited for it
  void AbandonSpares() KVD_REQUIRES(mutex_);
  void PublishAndRing() KVD_REQUIRES(mutex_);
  // Before its final answer can be seen.
  void EndRequest() KVD_REQUIRES(mutex_);

  const SessionIdentity identity_;
  const UniqueFd socket_;
  const std::function<void(SessionId)> pump_wanted_;
  std::size_t output_bytes_max_ = 0;
  const std::shared_ptr<OwnerAccount> account_;
  std::atomic<bool> closed_ = false;
  std::atomic<std::uint64_t> tokens_computed_ = 0;
  std::atomic<std::uint64_t> tokens_sampled_ = 0;
  bool submission_waits_ = false;  // io thread only

  Mutex mutex_;
  DaemonChannel channel_ KVD_GUARDED_BY(mutex_);  // but for submissions()
  SessionShares shares_ KVD_GUARDED_BY(mutex_);
  Share requests_ KVD_GUARDED_BY(mutex_);  // taken and not answered finally
  // Such requests that its owner has no share for; their answers say so.
  std::uint64_t refused_requests_ KVD_GUARDED_BY(mutex_) = 0;
  // Free slots promised to logits that are not final.
  std::uint32_t held_slots_ KVD_GUARDED_BY(mutex_) = 0;
  std::uint32_t pieces_in_flight_ KVD_GUARDED_BY(mutex_) = 0;  // logits reserved, not yet published
  // An answer found no spare while logits were in flight.
  bool small_answer_waits_ KVD_GUARDED_BY(mutex_) = false;
  // Found by whichever thread looked at the client's cursors while its own answer had no room; each
  // flag tells the other thread, which would look and find nothing new.
  bool room_unseen_ KVD_GUARDED_BY(mutex_) = false;  // by the io thread, since its last Refresh
  bool room_wanted_ KVD_GUARDED_BY(mutex_) = false;  // by a computing request
  // The client has read or released something that room_wanted_ was not told of.
  bool room_changed_ KVD_GUARDED_BY(mutex_) = false;
  // Allocated before the logits in flight, the next one to use at the back.
  std::vector<OutputPiece> spares_ KVD_GUARDED_BY(mutex_);
};

}  // namespace kvd
