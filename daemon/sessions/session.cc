// Completion slots: free_slots() counts the slots that are not reserved for a submission. Of the
// free slots, held_slots_ slots are set aside for logits in flight; other answers use only the
// remaining free slots.
#include "daemon/sessions/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "shm/peer_socket.h"
#include "shm/verb_table.h"

namespace kvd {

Session::Session(SessionIdentity identity, UniqueFd socket, DaemonChannel channel,
                 std::function<void(SessionId)> pump_wanted, SessionShares shares)
    : identity_(std::move(identity)),
      socket_(std::move(socket)),
      pump_wanted_(std::move(pump_wanted)),
      account_(shares.account),
      channel_(std::move(channel)),
      shares_(std::move(shares)),
      requests_(account_, Resource::kRequests) {
  output_bytes_max_ = channel_.completions().output_bytes_max();
  spares_.reserve(kSpareCount);
}

Result<bool> Session::TakeSubmission(ReceivedSubmission& into, std::uint64_t tokens_max,
                                     const SubmissionConsumer::Admit& admit) {
  submission_waits_ = false;
  KVD_TRY(const std::uint32_t waiting, submissions().Waiting());
  if (waiting == 0) return false;
  Status counted;
  {
    const MutexLock lock(mutex_);
    if (channel_.completions().free_slots() <= held_slots_ || !channel_.completions().Reserve()) {
      submission_waits_ = true;
      return false;
    }
    counted = requests_.Grow(1);
    if (!counted) ++refused_requests_;
  }
  // A payload may be large, so it is copied without the mutex, which the engine thread needs. A
  // kCancel is accepted even beyond the limit of requests, because with kCancel a client reduces
  // its number of requests.
  const auto refuse = [&](const wire::Submission& submission) {
    if (static_cast<wire::Verb>(submission.verb) != wire::Verb::kCancel) return counted;
    return admit ? admit(submission) : Status{};
  };
  KVD_TRY(const bool taken, counted ? submissions().Take(into, tokens_max, admit)
                                    : submissions().Take(into, tokens_max, refuse));
  KVD_ASSERT(taken);
  return true;
}

void Session::EndRequest() {
  if (refused_requests_ > 0) {
    --refused_requests_;
  } else {
    KVD_ASSERT(requests_.amount() > 0);
    requests_.Shrink(1);
  }
}

Result<std::optional<wire::Submission>> Session::PeekSubmission(std::uint32_t ahead) {
  return submissions().Peek(ahead);
}

Status Session::RefreshLocked() {
  CompletionProducer& completions = channel_.completions();
  const std::uint32_t slots_before = completions.free_slots();
  const std::uint64_t outstanding_before = completions.output_bytes_outstanding();
  KVD_CHECK_OK(completions.Refresh());
  if (completions.free_slots() != slots_before ||
      completions.output_bytes_outstanding() != outstanding_before) {
    room_changed_ = room_unseen_ = true;
  }
  return {};
}

Status Session::Refresh() {
  const MutexLock lock(mutex_);
  KVD_CHECK_OK(RefreshLocked());
  room_unseen_ = false;
  return {};
}

Result<bool> Session::Sleep(bool answer_waits, std::uint32_t submissions_seen) {
  const MutexLock lock(mutex_);
  if (answer_waits && room_unseen_) return false;
  const bool stalled = answer_waits || room_wanted_;
  KVD_TRY(const bool sleeps, channel_.PrepareToSleep(stalled, submissions_seen));
  // If an answer waits for room, PrepareToSleep reads the client's cursors, so this function must
  // record that room may have become free.
  if (!sleeps && stalled) room_changed_ = true;
  return sleeps;
}

void Session::WakeUp() {
  const MutexLock lock(mutex_);
  channel_.WakeUp();
}

bool Session::TakeRoomForComputing() {
  const MutexLock lock(mutex_);
  if (!room_wanted_ || !room_changed_) return false;
  room_wanted_ = room_changed_ = false;
  return true;
}

std::optional<OutputPiece> Session::PieceFor(std::size_t output_bytes) {
  CompletionProducer& completions = channel_.completions();
  if (output_bytes == 0) return OutputPiece{};
  if (pieces_in_flight_ == 0) return completions.AllocateOutput(output_bytes);
  if (output_bytes > kSpareBytes || spares_.empty()) {
    small_answer_waits_ = true;
    return std::nullopt;
  }
  const OutputPiece spare = spares_.back();
  spares_.pop_back();
  return spare;
}

void Session::PublishAndRing() {
  if (channel_.completions().Publish()) {
    // Errors of RingDoorbell are ignored: the socket's watch detects a closed connection, and a
    // full socket already holds unread doorbells.
    (void)RingDoorbell(socket_.get());
  }
}

bool Session::Try(const wire::Completion& completion, std::span<const std::byte> output,
                  bool is_final) {
  CompletionProducer& completions = channel_.completions();
  if (!is_final && completions.free_slots() <= held_slots_) return false;
  const auto piece = PieceFor(output.size());
  if (!piece) return false;
  if (!output.empty()) std::memcpy(piece->bytes.data(), output.data(), output.size());
  const auto output_bytes = static_cast<std::uint32_t>(output.size());
  if (is_final) {
    completions.WriteFinal(completion, *piece, output_bytes);
    EndRequest();
  } else {
    completions.WriteMore(completion, *piece, output_bytes);
  }
  PublishAndRing();
  return true;
}

bool Session::TryMore(const wire::Completion& completion, std::span<const std::byte> output) {
  if (closed()) return true;
  const MutexLock lock(mutex_);
  if (Try(completion, output, /*is_final=*/false)) return true;
  // If the client's cursors are corrupt, the io thread closes the connection.
  return RefreshLocked() && Try(completion, output, /*is_final=*/false);
}

bool Session::TryFinal(const wire::Completion& completion, std::span<const std::byte> output) {
  if (closed()) return true;
  const MutexLock lock(mutex_);
  if (Try(completion, output, /*is_final=*/true)) return true;
  return RefreshLocked() && Try(completion, output, /*is_final=*/true);
}

std::optional<Session::LogitsSpace> Session::ReserveLogits(std::size_t row_bytes,
                                                           std::size_t rows_max,
                                                           bool more_follows) {
  const MutexLock lock(mutex_);
  CompletionProducer& completions = channel_.completions();
  // If the client's cursors are corrupt, the io thread closes the connection, and no space is
  // reserved for the client.
  if (!RefreshLocked()) return std::nullopt;
  const bool wants_spares =
      pieces_in_flight_ == 0 &&
      completions.output_space() >= kSpareCount * kSpareBytes + rows_max * row_bytes;
  const std::size_t rows = std::min(rows_max, completions.output_space() / row_bytes);
  const bool needs_slot = more_follows || rows < rows_max;
  if (rows == 0 || (needs_slot && completions.free_slots() <= held_slots_)) return std::nullopt;
  if (wants_spares) {
    for (std::size_t i = 0; i < kSpareCount; ++i) {
      if (const auto spare = completions.AllocateOutput(kSpareBytes)) spares_.push_back(*spare);
    }
    std::ranges::reverse(spares_);
  }
  const auto piece = completions.AllocateOutput(rows * row_bytes);
  if (!piece) {
    // AllocateOutput returns no piece if there is no contiguous room for the rows after the spare
    // pieces. If no other logits are in flight, the spare pieces are not needed and are given back.
    if (pieces_in_flight_ == 0) AbandonSpares();
    return std::nullopt;
  }
  ++pieces_in_flight_;
  if (needs_slot) ++held_slots_;
  return LogitsSpace{.piece = *piece, .rows = rows, .holds_slot = needs_slot};
}

void Session::AbandonSpares() {
  for (const OutputPiece& spare : spares_) channel_.completions().AbandonOutput(spare);
  spares_.clear();
}

bool Session::EndInFlightPiece() {
  KVD_ASSERT(pieces_in_flight_ > 0);
  if (--pieces_in_flight_ > 0) return false;
  AbandonSpares();
  return std::exchange(small_answer_waits_, false);
}

void Session::PublishLogits(const LogitsSpace& space, const wire::Completion& completion) {
  bool pump = false;
  {
    const MutexLock lock(mutex_);
    // The spare pieces were allocated before the logits, and pieces are published in the order of
    // their allocation, so the spare pieces cannot be used after the logits are published.
    AbandonSpares();
    CompletionProducer& completions = channel_.completions();
    const auto output_bytes = static_cast<std::uint32_t>(space.piece.bytes.size());
    if (space.holds_slot) {
      --held_slots_;
      completions.WriteMore(completion, space.piece, output_bytes);
    } else {
      completions.WriteFinal(completion, space.piece, output_bytes);
      EndRequest();
    }
    pump = EndInFlightPiece();
    PublishAndRing();
  }
  if (pump) pump_wanted_(id());
}

void Session::AbandonLogits(const LogitsSpace& space) {
  bool pump = false;
  {
    const MutexLock lock(mutex_);
    if (space.holds_slot) --held_slots_;
    channel_.completions().AbandonOutput(space.piece);
    pump = EndInFlightPiece();
  }
  if (pump) pump_wanted_(id());
}

void Session::WantRoom() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(room_wanted_, true) && !room_changed_) return;
  }
  if (!closed()) pump_wanted_(id());
}

void Session::Close() {
  closed_.store(true, std::memory_order_release);
  const MutexLock lock(mutex_);
  shares_.connection = {};
  shares_.connection_of_uid = {};
  shares_.outliving = {};
}

}  // namespace kvd
