// Publication: the daemon writes outputs and entries, then stores completion_tail; the client loads
// the tail before it reads an entry or output. Reuse: the client reads an entry (or releases
// output), then stores completion_head (or output_released); the daemon loads these cursors before
// it writes to the same place again. Sleeping: each side stores its flag and then loads the other's
// cursors; the other side stores its cursor and then loads the flag. The stores and loads of flags
// and cursors are sequentially consistent, so at least one side sees the other side's store.
#include "shm/result_channel.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/rounding.h"
#include "shm/shared_copy.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

std::unexpected<Error> CursorError(const char* field, std::uint64_t found, std::uint64_t low,
                                   std::uint64_t high) {
  return Fail(Code::kCorrupt, field, ": ", found, " is not in [", low, ", ", high, "]");
}

}  // namespace

CompletionProducer::CompletionProducer(std::span<std::byte> results,
                                       std::span<const std::byte> requests,
                                       const ChannelGeometry& geometry)
    : results_header_(reinterpret_cast<layout::ResultsHeader*>(results.data())),
      requests_header_(reinterpret_cast<const layout::RequestsHeader*>(requests.data())),
      entries_(results.subspan(sizeof(layout::ResultsHeader),
                               geometry.completion_entries * sizeof(wire::Completion))),
      arena_(results.subspan(geometry.result_arena_offset(), geometry.result_arena_bytes)),
      entry_count_(geometry.completion_entries) {
  KVD_ASSERT(requests.size() == geometry.request_segment_bytes());
  KVD_ASSERT(results.size() == geometry.result_segment_bytes());
}

Status CompletionProducer::Refresh() {
  const std::uint64_t head = requests_header_->completion_head.load(std::memory_order_seq_cst);
  if (head < head_ || head > published_) {
    return CursorError("completion_head", head, head_, published_);
  }
  const std::uint64_t released = requests_header_->output_released.load(std::memory_order_seq_cst);
  if (released < released_ || released > handed_out_) {
    return CursorError("output_released", released, released_, handed_out_);
  }
  head_ = head;
  released_ = released;
  FreePieces();
  return {};
}

void CompletionProducer::FreePieces() {
  while (!pieces_.empty()) {
    const Piece& oldest = pieces_.front();
    const bool is_free = oldest.state == Piece::State::kAbandoned ||
                         (oldest.state == Piece::State::kPublished && oldest.end <= released_);
    if (!is_free) return;
    arena_head_ = oldest.end;
    pieces_.pop_front();
  }
  arena_head_ = arena_tail_;
}

std::uint32_t CompletionProducer::free_slots() const {
  const std::uint64_t used = tail_ - head_ + reserved_;
  KVD_ASSERT(used <= entry_count_);
  return static_cast<std::uint32_t>(entry_count_ - used);
}

bool CompletionProducer::Reserve() {
  if (free_slots() == 0) return false;
  ++reserved_;
  return true;
}

void CompletionProducer::Unreserve() {
  KVD_ASSERT(reserved_ > 0);
  --reserved_;
}

// Returns the offset at which the next piece may begin. An empty arena restarts at its beginning,
// so that the largest piece fits.
std::uint64_t CompletionProducer::space_begin() const {
  return pieces_.empty() ? RoundUp(arena_tail_, arena_.size()) : arena_tail_;
}

std::size_t CompletionProducer::output_space() const {
  const std::uint64_t begin = space_begin();
  const std::uint64_t free_bytes = arena_.size() - (pieces_.empty() ? 0 : begin - arena_head_);
  const std::uint64_t until_wrap = arena_.size() - begin % arena_.size();
  if (free_bytes <= until_wrap) return free_bytes;
  return std::max(until_wrap, free_bytes - until_wrap);
}

std::optional<OutputPiece> CompletionProducer::AllocateOutput(std::size_t byte_count) {
  KVD_ASSERT(byte_count <= arena_.size());
  if (byte_count == 0) return OutputPiece{};
  std::uint64_t begin = space_begin();
  const std::uint64_t head = pieces_.empty() ? begin : arena_head_;
  const std::uint64_t until_wrap = arena_.size() - begin % arena_.size();
  if (byte_count > until_wrap) begin += until_wrap;
  const std::uint64_t end = begin + RoundUp(byte_count, wire::kOutputAlignment);
  if (end - head > arena_.size()) return std::nullopt;
  arena_head_ = head;
  arena_tail_ = end;
  pieces_.push_back({begin, end, Piece::State::kAllocated});
  return OutputPiece{arena_.subspan(begin % arena_.size(), byte_count), begin};
}

void CompletionProducer::AbandonOutput(const OutputPiece& piece) {
  if (piece.bytes.empty()) return;
  const auto found = std::ranges::lower_bound(pieces_, piece.cursor, {}, &Piece::begin);
  KVD_ASSERT(found != pieces_.end() && found->begin == piece.cursor);
  KVD_ASSERT(found->state == Piece::State::kAllocated);
  found->state = Piece::State::kAbandoned;
  // An abandoned piece at the end of the stream is freed at once; another abandoned piece is freed
  // when all older pieces are free.
  while (!pieces_.empty() && pieces_.back().state == Piece::State::kAbandoned) {
    arena_tail_ = pieces_.back().begin;
    pieces_.pop_back();
  }
  if (!pieces_.empty()) arena_tail_ = pieces_.back().end;
  FreePieces();
}

void CompletionProducer::Write(wire::Completion completion, const OutputPiece& piece,
                               std::uint32_t output_bytes) {
  KVD_ASSERT(output_bytes <= piece.bytes.size());
  completion.output_bytes = output_bytes;
  completion.output_cursor = 0;
  if (output_bytes == 0) {
    AbandonOutput(piece);
  } else {
    const auto found = std::ranges::lower_bound(pieces_, piece.cursor, {}, &Piece::begin);
    KVD_ASSERT(found != pieces_.end() && found->begin == piece.cursor);
    KVD_ASSERT(found->state == Piece::State::kAllocated);
    KVD_ASSERT(piece.cursor >= handed_out_);
    // The piece ends where the client's release cursor will be after the release, so the unused
    // rest of the piece is freed with the piece.
    found->state = Piece::State::kPublished;
    const std::uint64_t end = piece.cursor + RoundUp(output_bytes, wire::kOutputAlignment);
    if (found + 1 == pieces_.end()) arena_tail_ = end;
    found->end = end;
    handed_out_ = end;
    completion.output_cursor = piece.cursor;
  }
  StoreEntry(completion, entries_.data() + tail_ % entry_count_ * sizeof completion);
  ++tail_;
}

void CompletionProducer::WriteMore(wire::Completion completion, const OutputPiece& piece,
                                   std::uint32_t output_bytes) {
  KVD_ASSERT(free_slots() > 0);
  completion.flags |= wire::kMore;
  Write(completion, piece, output_bytes);
}

void CompletionProducer::WriteFinal(wire::Completion completion, const OutputPiece& piece,
                                    std::uint32_t output_bytes) {
  Unreserve();
  completion.flags &= static_cast<std::uint8_t>(~wire::kMore);
  Write(completion, piece, output_bytes);
}

bool CompletionProducer::Publish() {
  if (published_ == tail_) return false;
  published_ = tail_;
  results_header_->completion_tail.store(published_, std::memory_order_seq_cst);
  return requests_header_->client_sleeps.load(std::memory_order_seq_cst) != 0;
}

std::uint64_t CompletionProducer::output_bytes_outstanding() const {
  return pieces_.empty() ? 0 : arena_tail_ - arena_head_;
}

CompletionConsumer::CompletionConsumer(std::span<const std::byte> results,
                                       std::span<std::byte> requests,
                                       const ChannelGeometry& geometry)
    : results_header_(reinterpret_cast<const layout::ResultsHeader*>(results.data())),
      requests_header_(reinterpret_cast<layout::RequestsHeader*>(requests.data())),
      entries_(results.subspan(sizeof(layout::ResultsHeader),
                               geometry.completion_entries * sizeof(wire::Completion))),
      arena_(results.subspan(geometry.result_arena_offset(), geometry.result_arena_bytes)),
      entry_count_(geometry.completion_entries) {
  KVD_ASSERT(requests.size() == geometry.request_segment_bytes());
  KVD_ASSERT(results.size() == geometry.result_segment_bytes());
}

bool CompletionConsumer::HasNext() const {
  return results_header_->completion_tail.load(std::memory_order_seq_cst) != head_;
}

Result<bool> CompletionConsumer::Next(wire::Completion& into) {
  const std::uint64_t tail = results_header_->completion_tail.load(std::memory_order_seq_cst);
  if (tail < head_ || tail - head_ > entry_count_) {
    return CursorError("completion_tail", tail, head_, head_ + entry_count_);
  }
  if (tail == head_) return false;
  into = CopyEntry<wire::Completion>(entries_.data() +
                                     head_ % entry_count_ * sizeof(wire::Completion));
  KVD_CHECK_OK(wire::ValidateCompletion(into, arena_.size()));
  ++head_;
  requests_header_->completion_head.store(head_, std::memory_order_seq_cst);
  return true;
}

std::span<const std::byte> CompletionConsumer::output(const wire::Completion& completion) const {
  return arena_.subspan(completion.output_cursor % arena_.size(), completion.output_bytes);
}

std::uint64_t CompletionConsumer::ReleaseEnd(const wire::Completion& completion) {
  return completion.output_cursor + RoundUp(completion.output_bytes, wire::kOutputAlignment);
}

void CompletionConsumer::Release(const wire::Completion& completion) {
  if (completion.output_bytes != 0) ReleaseUpTo(ReleaseEnd(completion));
}

void CompletionConsumer::ReleaseUpTo(std::uint64_t cursor) {
  if (cursor <= released_) return;
  released_ = cursor;
  requests_header_->output_released.store(released_, std::memory_order_seq_cst);
}

bool CompletionConsumer::daemon_stalled() const {
  return results_header_->daemon_sleeps.load(std::memory_order_seq_cst) == layout::kDaemonStalled;
}

bool CompletionConsumer::PrepareToSleep() {
  requests_header_->client_sleeps.store(1, std::memory_order_seq_cst);
  if (!HasNext()) return true;
  WakeUp();
  return false;
}

void CompletionConsumer::WakeUp() {
  requests_header_->client_sleeps.store(0, std::memory_order_relaxed);
}

}  // namespace kvd
