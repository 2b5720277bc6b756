// The channel from a client to the daemon: the submission ring and payload arena of `requests`, and
// the cursor in `results` that counts the submissions that the daemon has copied.
//
// SubmissionProducer runs in the client, SubmissionConsumer in the daemon; they share only the
// segments. ClientChannel and DaemonChannel own the bytes. A SubmissionProducer or
// SubmissionConsumer is used by one thread at a time. Invariant: consumed <= published, published -
// consumed <= entries. Each side keeps its own cursor in private memory and accepts the other
// side's cursor only if consumed <= published and published - consumed <= entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "shm/channel_geometry.h"
#include "shm/segment_layout.h"
#include "shm/wire_messages.h"

namespace kvd {

// SubmissionProducer: the client's end of the channel.
class SubmissionProducer {
 public:
  // REQUIRES: the spans are whole segments of `geometry`, at least 64-byte aligned.
  SubmissionProducer(std::span<std::byte> requests, std::span<const std::byte> results,
                     const ChannelGeometry& geometry);

  // Reserves room for one submission with a payload of `payload_bytes` and returns the place for
  // the payload. Reserve returns nullopt if there is no room until the daemon has copied more
  // submissions. The next Reserve releases a reservation that was not submitted. Errors: kTooLarge
  // (the payload is larger than the arena), kCorrupt (the daemon's cursor).
  Result<std::optional<std::span<std::byte>>> Reserve(std::size_t payload_bytes);

  // Publishes `submission` in the room that the last Reserve returned, and sets its payload fields.
  // Returns true if the daemon sleeps, so that the caller must ring the doorbell. REQUIRES: a
  // reservation.
  [[nodiscard]] bool Submit(wire::Submission submission);

  // Submissions that the daemon has not copied yet, as of the last Reserve.
  std::uint64_t unread_count() const { return tail_ - head_; }

 private:
  struct Reservation {
    std::uint64_t begin;  // offset in the payload stream
    std::uint64_t end;
    std::uint32_t byte_count;
  };

  layout::RequestsHeader* requests_header_;
  const layout::ResultsHeader* results_header_;
  std::span<std::byte> entries_;
  std::span<std::byte> arena_;
  std::uint64_t entry_mask_;
  std::uint64_t tail_ = 0;  // number of submissions published
  // Number of submissions that the daemon has copied, as last read.
  std::uint64_t head_ = 0;
  // End of the submitted payloads, as an offset in the payload stream.
  std::uint64_t arena_tail_ = 0;
  // End of the payloads that the daemon has copied, as an offset in the payload stream.
  std::uint64_t arena_head_ = 0;
  // For each ring entry: the value of arena_head_ after the daemon has copied that entry.
  std::vector<std::uint64_t> payload_ends_;
  std::optional<Reservation> reservation_;
};

// The daemon's copy of a submission. `check` is the result of ValidateSubmission on the copy, or
// the reason why the payload was not copied. On an error the payload is empty, and the daemon
// answers only this request with the error; other requests and the session continue.
struct ReceivedSubmission {
  wire::Submission submission{};
  std::vector<std::byte> payload;
  Status check;
};

// SubmissionConsumer: the daemon's end of the channel.
class SubmissionConsumer {
 public:
  // REQUIRES: as for SubmissionProducer.
  SubmissionConsumer(std::span<const std::byte> requests, std::span<std::byte> results,
                     const ChannelGeometry& geometry);

  // Returns the number of submissions that are published and not taken. Errors: kCorrupt, naming
  // the client's tail (the tail is ahead by more than the ring's entries, or has moved backwards):
  // disconnect the client.
  Result<std::uint32_t> Waiting();

  // A function that Take calls for a valid submission before it copies the payload. An error of an
  // Admit function becomes the submission's `check`.
  using Admit = std::function<Status(const wire::Submission&)>;
  // Copies the next submission, validates the copy, copies its payload once, and lets the client
  // reuse the entry and the payload. Returns false if no submission waits. If there is no memory
  // for a payload, ReceivedSubmission::check is kNoSpace. Errors: as for Waiting. REQUIRES: the
  // caller has reserved a completion slot with CompletionProducer::Reserve (reserving limits how
  // many requests are in flight).
  Result<bool> Take(ReceivedSubmission& into,
                    std::uint64_t tokens_max = std::numeric_limits<std::uint64_t>::max(),
                    const Admit& admit = {});

  // Returns a copy of the waiting submission that `ahead` others precede, without taking it.
  // Peek returns nullopt if at most `ahead` submissions wait. The client may still change the ring
  // entry after Peek, so a later Take may return a different submission. Errors: as for Waiting.
  Result<std::optional<wire::Submission>> Peek(std::uint32_t ahead);

 private:
  const layout::RequestsHeader* requests_header_;
  layout::ResultsHeader* results_header_;
  std::span<const std::byte> entries_;
  std::span<const std::byte> arena_;
  std::uint64_t entry_mask_;
  std::uint64_t head_ = 0;  // number of submissions taken
  std::uint64_t tail_ = 0;  // the client's submission_tail, as last accepted
};

}  // namespace kvd
