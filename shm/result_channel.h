// The channel from the daemon to a client: the completion ring and output arena of `results`, and
// the cursors in `requests` that count the completions read and the output bytes released by the
// client.
//
// CompletionProducer runs in the daemon, CompletionConsumer in the client; they share only the
// segments. DaemonChannel and ClientChannel own the bytes. A CompletionProducer or
// CompletionConsumer is used by one thread at a time.
//
// The output arena is a stream of contiguous 64-byte aligned pieces. A piece that would cross the
// arena's end starts at the arena's beginning instead. A piece is free when the client's release
// cursor has reached its end, or when the daemon has abandoned it; pieces become free oldest first.
// Invariants: released <= handed out; reserved slots + unread completions <= entries, so a final
// answer never waits for a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/error.h"
#include "shm/channel_geometry.h"
#include "shm/segment_layout.h"
#include "shm/wire_messages.h"

namespace kvd {

// A piece of the output arena that the daemon may write until it publishes or abandons it.
struct OutputPiece {
  std::span<std::byte> bytes;
  std::uint64_t cursor = 0;  // the value for Completion::output_cursor
};

// CompletionProducer: the daemon's end of the channel.
class CompletionProducer {
 public:
  // REQUIRES: the spans are whole segments of `geometry`, at least 64-byte aligned.
  CompletionProducer(std::span<std::byte> results, std::span<const std::byte> requests,
                     const ChannelGeometry& geometry);

  // Reads the client's two cursors: the number of completions that the client has read, and the
  // number of output bytes that the client has released. Call Refresh before asking for slots or
  // space; no other function of this class reads the client's memory, except for client_sleeps.
  // Errors: kCorrupt, naming the cursor (the cursor has moved backwards, or beyond the completions
  // written or output handed out): disconnect the client.
  Status Refresh();

  // Number of completion slots that are free and not reserved.
  std::uint32_t free_slots() const;
  // Reserves one slot for a request's final completion. Returns false if no slot is free; the
  // caller then leaves the submission in its ring.
  [[nodiscard]] bool Reserve();
  // Gives back a reserved slot that no final completion will use. REQUIRES: a reservation.
  void Unreserve();

  // Allocates a contiguous piece of `byte_count` bytes, 64-byte aligned. AllocateOutput returns
  // nullopt if there is no room until the client releases output. The caller either publishes or
  // abandons every piece, and publishes pieces in the order of their allocation. For 0 bytes,
  // AllocateOutput always returns an empty piece. REQUIRES: byte_count <= output_bytes_max().
  std::optional<OutputPiece> AllocateOutput(std::size_t byte_count);
  // Returns the largest piece that AllocateOutput would grant at this moment, a multiple of 64.
  std::size_t output_space() const;
  // The largest possible piece; larger outputs are sent in several pieces. A piece of
  // output_bytes_max() bytes can be allocated once the client has released all output.
  std::size_t output_bytes_max() const { return arena_.size(); }
  // Frees a piece that no completion refers to. REQUIRES: the piece is allocated and not published.
  void AbandonOutput(const OutputPiece& piece);

  // WriteMore and WriteFinal append a completion, whose output is the first `output_bytes` of
  // `piece`. WriteMore takes a free slot (REQUIRES: free_slots() > 0) and sets kMore. WriteFinal
  // takes a reserved slot (REQUIRES: a reservation) and clears kMore. WriteMore and WriteFinal fill
  // in the output fields of the completion.
  void WriteMore(wire::Completion completion, const OutputPiece& piece, std::uint32_t output_bytes);
  void WriteFinal(wire::Completion completion, const OutputPiece& piece,
                  std::uint32_t output_bytes);
  // Makes all written completions visible to the client. Returns true if the client sleeps, so that
  // the caller must ring the doorbell once.
  [[nodiscard]] bool Publish();

  // Bytes of the output arena that are allocated or skipped, and not free yet.
  std::uint64_t output_bytes_outstanding() const;

 private:
  struct Piece {
    std::uint64_t begin;  // offset in the output stream at which the piece's content starts
    std::uint64_t end;
    enum class State : std::uint8_t { kAllocated, kPublished, kAbandoned } state;
  };

  void Write(wire::Completion completion, const OutputPiece& piece, std::uint32_t output_bytes);
  void FreePieces();
  std::uint64_t space_begin() const;

  layout::ResultsHeader* results_header_;
  const layout::RequestsHeader* requests_header_;
  std::span<std::byte> entries_;
  std::span<std::byte> arena_;
  std::uint64_t entry_count_;
  std::uint64_t tail_ = 0;       // number of completions written
  std::uint64_t published_ = 0;  // number of completions that the client can see
  std::uint64_t head_ = 0;       // number of completions that the client has read, as last accepted
  std::uint32_t reserved_ = 0;
  std::uint64_t arena_tail_ = 0;  // end of the allocated part of the output stream
  std::uint64_t arena_head_ = 0;  // end of the freed part of the output stream
  std::uint64_t handed_out_ = 0;  // end of the last published piece
  std::uint64_t released_ = 0;    // the client's cursor of released output, as last accepted
  std::deque<Piece> pieces_;      // the pieces that are not free yet, oldest first
};

// CompletionConsumer: the client's end of the channel.
class CompletionConsumer {
 public:
  // REQUIRES: as for CompletionProducer.
  CompletionConsumer(std::span<const std::byte> results, std::span<std::byte> requests,
                     const ChannelGeometry& geometry);

  // Copies the next completion, validates the copy (ValidateCompletion), and lets the daemon reuse
  // the slot. Returns false if no completion is unread. Errors: kCorrupt (the caller must close the
  // connection).
  Result<bool> Next(wire::Completion& into);
  // Returns whether a completion can be read.
  bool HasNext() const;

  // Returns the output of a completion, in place. The returned span is valid until the output is
  // released.
  std::span<const std::byte> output(const wire::Completion& completion) const;
  // Releases every output up to and including the output of `completion`.
  void Release(const wire::Completion& completion);
  void ReleaseUpTo(std::uint64_t cursor);  // `cursor`: a value that ReleaseEnd returned
  static std::uint64_t ReleaseEnd(const wire::Completion& completion);

  // Returns whether the daemon waits until completions are read or output is released; if so, the
  // caller must ring the doorbell. daemon_stalled must be called after a Next or Release that may
  // have made room.
  bool daemon_stalled() const;

  // Prepares the client to sleep: sets the sleep flag, then checks the ring once more. Returns true
  // if the client may sleep; the client calls WakeUp afterwards. Returns false if a completion can
  // be read; PrepareToSleep has then cleared the sleep flag again.
  [[nodiscard]] bool PrepareToSleep();
  void WakeUp();

 private:
  const layout::ResultsHeader* results_header_;
  layout::RequestsHeader* requests_header_;
  std::span<const std::byte> entries_;
  std::span<const std::byte> arena_;
  std::uint64_t entry_count_;
  std::uint64_t head_ = 0;
  std::uint64_t released_ = 0;
};

}  // namespace kvd
