// The way from the daemon to a client: completion ring and output arena of `results`, and the
// cursors in `requests` by which the client says what it has read and given back.
//
// CompletionProducer lives in the daemon, CompletionConsumer in the client; they share nothing but
// the segments. Neither owns its bytes. One thread at a time.
//
// The output arena is a stream of contiguous 64-byte aligned pieces; one that would cross the
// arena's end starts at its beginning instead. A piece is free when the client's release cursor has
// reached its end (or the daemon abandoned it), oldest first. Invariants: released <= handed out;
// reserved slots + unread completions <= entries, so a final answer never waits for room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "shm/channel_geometry.h"
#include "shm/error.h"
#include "shm/segment_layout.h"
#include "shm/wire_messages.h"

namespace kvd {

// A piece of the output arena that the daemon may write until it publishes or abandons it.
struct OutputPiece {
  std::span<std::byte> bytes;
  std::uint64_t cursor = 0;  // for Completion::output_cursor
};

// The daemon's end.
class CompletionProducer {
 public:
  // REQUIRES: the spans are whole segments of `geometry`, at least 64-byte aligned.
  CompletionProducer(std::span<std::byte> results, std::span<const std::byte> requests,
                     const ChannelGeometry& geometry);

  // Looks at what the client has read and released. Errors: kCorrupt, naming the cursor (moved
  // backwards, or beyond what was written or handed out): close that client. Call it before asking
  // for slots or space; nothing else here reads the client's memory but client_sleeps.
  Status Refresh();

  // Completions that can be written now and are reserved for nobody.
  std::uint32_t free_slots() const;
  // Keeps one slot for a request's final completion. False: none is free; leave the submission in
  // its ring.
  [[nodiscard]] bool Reserve();
  void Unreserve();  // REQUIRES: a reservation of which no final completion was written

  // A contiguous piece of `byte_count` bytes, 64-byte aligned; nullopt: not before the client
  // releases some. Pieces are published or abandoned in any mix, but published in the order of
  // their allocation. 0 bytes: an empty piece, always there. REQUIRES: byte_count <=
  // output_bytes_max().
  std::optional<OutputPiece> AllocateOutput(std::size_t byte_count);
  // The largest piece that AllocateOutput would grant now, a multiple of 64.
  std::size_t output_space() const;
  // The largest piece there can ever be: larger outputs go in several. Progress needs no more than
  // that the client releases everything.
  std::size_t output_bytes_max() const { return arena_.size(); }
  // Gives a piece back that no completion will name. REQUIRES: allocated, not published.
  void AbandonOutput(const OutputPiece& piece);

  // Write a completion behind the published ones; its output is `piece`, of which the first
  // `output_bytes` count. More takes a free slot (REQUIRES: free_slots() > 0) and sets kMore; Final
  // takes a reserved one (REQUIRES: a reservation) and clears it. Output fields are filled in here.
  void WriteMore(wire::Completion completion, const OutputPiece& piece, std::uint32_t output_bytes);
  void WriteFinal(wire::Completion completion, const OutputPiece& piece,
                  std::uint32_t output_bytes);
  // Makes all written completions visible. True: the client sleeps and must be rung, once.
  [[nodiscard]] bool Publish();

  std::uint64_t output_bytes_outstanding() const;  // handed out or skipped, not free yet

 private:
  struct Piece {
    std::uint64_t begin;  // in the output stream, where its content starts
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
  std::uint64_t tail_ = 0;       // completions written
  std::uint64_t published_ = 0;  // completions that the client can see
  std::uint64_t head_ = 0;       // completions that the client has read, as last believed
  std::uint32_t reserved_ = 0;
  std::uint64_t arena_tail_ = 0;  // output stream allocated
  std::uint64_t arena_head_ = 0;  // output stream free again
  std::uint64_t handed_out_ = 0;  // end of the last published piece
  std::uint64_t released_ = 0;    // the client's cursor, as last believed
  std::deque<Piece> pieces_;      // not free yet, oldest first
};

// The client's end.
class CompletionConsumer {
 public:
  // REQUIRES: as above.
  CompletionConsumer(std::span<const std::byte> results, std::span<std::byte> requests,
                     const ChannelGeometry& geometry);

  // Copies the next completion, checked (ValidateCompletion), and lets the daemon reuse its slot.
  // False: none is there. Errors: kCorrupt: disconnect.
  Result<bool> Next(wire::Completion& into);
  // Whether one is there, without taking it.
  bool HasNext() const;

  // Where the output of a completion lies, until it is released.
  std::span<const std::byte> output(const wire::Completion& completion) const;
  // Gives back every output up to and including that of `completion`.
  void Release(const wire::Completion& completion);
  void ReleaseUpTo(std::uint64_t cursor);  // a cursor that ReleaseEnd returned
  static std::uint64_t ReleaseEnd(const wire::Completion& completion);

  // Whether the daemon waits for completions to be read or output to be released: ring it. To be
  // asked after the Next or Release that may have helped it.
  bool daemon_stalled() const;

  // The sleeper's half of the doorbell protocol: sets the flag and looks once more. False: a
  // completion is there (the flag is down again). After a true and a wake-up call WakeUp.
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
