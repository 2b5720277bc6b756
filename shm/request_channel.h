// The way from a client to the daemon: submission ring and payload arena of `requests`, and the
// cursor in `results` by which the daemon says how far it has copied.
//
// SubmissionProducer lives in the client, SubmissionConsumer in the daemon; they share nothing but
// the segments. Neither owns its bytes (ClientChannel and DaemonChannel do). One thread at a time.
// Invariant: consumed <= published, published - consumed <= entries; each side keeps its own cursor
// in private memory and believes the other's only within that range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "shm/channel_geometry.h"
#include "shm/error.h"
#include "shm/segment_layout.h"
#include "shm/wire_messages.h"

namespace kvd {

// The client's end.
class SubmissionProducer {
 public:
  // REQUIRES: the spans are whole segments of `geometry`, at least 64-byte aligned.
  SubmissionProducer(std::span<std::byte> requests, std::span<const std::byte> results,
                     const ChannelGeometry& geometry);

  // Room for one submission with a payload of that many bytes: where to write the payload. nullopt:
  // not now, the daemon has not copied enough yet. A reservation not submitted is given back by the
  // next Reserve. Errors: kNoSpace (larger than the arena: never), kCorrupt (the daemon's cursor).
  Result<std::optional<std::span<std::byte>>> Reserve(std::size_t payload_bytes);

  // Publishes the submission that the last Reserve made room for; payload fields are filled in
  // here. True: the daemon sleeps and must be rung. REQUIRES: a reservation.
  [[nodiscard]] bool Submit(wire::Submission submission);

  // Submissions not copied out by the daemon yet, as of the last Reserve.
  std::uint64_t unread_count() const { return tail_ - head_; }

 private:
  struct Reservation {
    std::uint64_t begin;  // in the payload stream
    std::uint64_t end;
    std::uint32_t byte_count;
  };

  layout::RequestsHeader* requests_header_;
  const layout::ResultsHeader* results_header_;
  std::span<std::byte> entries_;
  std::span<std::byte> arena_;
  std::uint64_t entry_mask_;
  std::uint64_t tail_ = 0;                   // submissions published
  std::uint64_t head_ = 0;                   // submissions that the daemon has copied, as last seen
  std::uint64_t arena_tail_ = 0;             // payload stream handed out
  std::uint64_t arena_head_ = 0;             // payload stream copied by the daemon
  std::vector<std::uint64_t> payload_ends_;  // per entry: arena_head_ once it is copied
  std::optional<Reservation> reservation_;
};

// A submission as the daemon copied it. `check` is ValidateSubmission's answer on the copy, or why
// its payload was not copied: an error reply to that request, which ends nothing else; the payload is
// then empty.
struct ReceivedSubmission {
  wire::Submission submission{};
  std::vector<std::byte> payload;
  Status check;
};

// The daemon's end.
class SubmissionConsumer {
 public:
  // REQUIRES: as above.
  SubmissionConsumer(std::span<const std::byte> requests, std::span<std::byte> results,
                     const ChannelGeometry& geometry);

  // How many submissions wait. Errors: kCorrupt, naming the client's tail (more than the ring's
  // entries ahead, or moved backwards): close that client.
  Result<std::uint32_t> Waiting();

  // What Take asks for a submission that it found good, before it copies the payload: an error
  // becomes the submission's.
  using Admit = std::function<Status(const wire::Submission&)>;
  // Copies the next submission, checks the copy, copies its payload once, and lets the client reuse
  // both. False: none waits. A payload for which there is no memory is an error of the submission
  // (kNoSpace). Errors as Waiting. Back-pressure is the caller's: take only what
  // CompletionProducer::Reserve found a slot for.
  Result<bool> Take(ReceivedSubmission& into,
                    std::uint64_t tokens_max = std::numeric_limits<std::uint64_t>::max(),
                    const Admit& admit = {});

  // A copy of one that waits, behind `ahead` others; nothing is taken. nullopt: so many do not wait.
  // The client may still change it, so what is taken later may be another one. Errors as Waiting.
  Result<std::optional<wire::Submission>> Peek(std::uint32_t ahead);

 private:
  const layout::RequestsHeader* requests_header_;
  layout::ResultsHeader* results_header_;
  std::span<const std::byte> entries_;
  std::span<const std::byte> arena_;
  std::uint64_t entry_mask_;
  std::uint64_t head_ = 0;  // submissions taken
  std::uint64_t tail_ = 0;  // the client's tail as last believed
};

}  // namespace kvd
