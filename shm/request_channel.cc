// Publication: the client writes the entry and its payload, then stores submission_tail; the daemon
// loads the tail before it reads the entry or the payload. Reuse: the daemon copies entry and
// payload, then stores submission_head; the client loads the head before it writes to the same
// place again. Sleeping: the client stores the tail, then loads daemon_sleeps; the daemon stores
// daemon_sleeps, then loads the tail again. The two stores and the two loads are sequentially
// consistent, so at least one side sees the other side's store.
#include "shm/request_channel.h"

#include <algorithm>
#include <new>
#include <string>

#include "base/check.h"
#include "base/rounding.h"
#include "shm/shared_copy.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

constexpr std::uint64_t kPayloadAlignment = 8;
// A payload buffer larger than kKeptBytes is not reused for the next submission.
constexpr std::size_t kKeptBytes = 64 << 10;

void MakeRoom(ReceivedSubmission& into) {
  if (into.payload.capacity() > kKeptBytes) into.payload = {};
  try {
    into.payload.resize(into.check ? into.submission.payload_bytes : 0);
  } catch (const std::bad_alloc&) {
    into.payload = {};
    into.check =
        Fail(Code::kNoSpace, "payload: no memory for ", into.submission.payload_bytes, " bytes");
  }
}

}  // namespace

SubmissionProducer::SubmissionProducer(std::span<std::byte> requests,
                                       std::span<const std::byte> results,
                                       const ChannelGeometry& geometry)
    : requests_header_(reinterpret_cast<layout::RequestsHeader*>(requests.data())),
      results_header_(reinterpret_cast<const layout::ResultsHeader*>(results.data())),
      entries_(requests.subspan(sizeof(layout::RequestsHeader),
                                geometry.submission_entries * sizeof(wire::Submission))),
      arena_(requests.subspan(geometry.request_arena_offset(), geometry.request_arena_bytes)),
      entry_mask_(geometry.submission_entries - 1),
      payload_ends_(geometry.submission_entries) {
  KVD_ASSERT(requests.size() == geometry.request_segment_bytes());
  KVD_ASSERT(results.size() == geometry.result_segment_bytes());
}

Result<std::optional<std::span<std::byte>>> SubmissionProducer::Reserve(std::size_t payload_bytes) {
  reservation_.reset();
  if (payload_bytes > arena_.size()) {
    return Fail(Code::kTooLarge, "request: a payload of ", payload_bytes,
                " bytes, the request arena has ", arena_.size());
  }
  const std::uint64_t head = results_header_->submission_head.load(std::memory_order_acquire);
  if (head < head_ || head > tail_) {
    return Fail(Code::kCorrupt, "submission_head: ", head, " is not in [", head_, ", ", tail_, "]");
  }
  if (head != head_) {
    arena_head_ = payload_ends_[(head - 1) & entry_mask_];
    head_ = head;
  }
  // If no submission is in flight, the payload stream continues at the arena's beginning, so that
  // the largest payload fits. arena_head_ moves to the same place, because submissions without a
  // payload also record an end of the payload stream, and that end must not be less than
  // arena_head_.
  if (head_ == tail_) {
    arena_head_ = arena_tail_ = RoundUp(arena_tail_, arena_.size());
  }
  if (tail_ - head_ > entry_mask_) return std::nullopt;
  std::uint64_t begin = arena_tail_;
  const std::uint64_t until_wrap = arena_.size() - begin % arena_.size();
  if (payload_bytes > until_wrap) begin += until_wrap;
  const std::uint64_t end = begin + RoundUp(payload_bytes, kPayloadAlignment);
  if (end - arena_head_ > arena_.size()) return std::nullopt;
  reservation_ = Reservation{begin, end, static_cast<std::uint32_t>(payload_bytes)};
  return arena_.subspan(begin % arena_.size(), payload_bytes);
}

bool SubmissionProducer::Submit(wire::Submission submission) {
  KVD_ASSERT(reservation_.has_value());
  submission.payload_bytes = reservation_->byte_count;
  submission.payload_offset =
      reservation_->byte_count == 0 ? 0 : reservation_->begin % arena_.size();
  const std::uint64_t index = tail_ & entry_mask_;
  StoreEntry(submission, entries_.data() + index * sizeof submission);
  arena_tail_ = reservation_->end;
  payload_ends_[index] = arena_tail_;
  reservation_.reset();
  ++tail_;
  requests_header_->submission_tail.store(tail_, std::memory_order_seq_cst);
  return results_header_->daemon_sleeps.load(std::memory_order_seq_cst) != layout::kDaemonAwake;
}

SubmissionConsumer::SubmissionConsumer(std::span<const std::byte> requests,
                                       std::span<std::byte> results,
                                       const ChannelGeometry& geometry)
    : requests_header_(reinterpret_cast<const layout::RequestsHeader*>(requests.data())),
      results_header_(reinterpret_cast<layout::ResultsHeader*>(results.data())),
      entries_(requests.subspan(sizeof(layout::RequestsHeader),
                                geometry.submission_entries * sizeof(wire::Submission))),
      arena_(requests.subspan(geometry.request_arena_offset(), geometry.request_arena_bytes)),
      entry_mask_(geometry.submission_entries - 1) {
  KVD_ASSERT(requests.size() == geometry.request_segment_bytes());
  KVD_ASSERT(results.size() == geometry.result_segment_bytes());
}

Result<std::uint32_t> SubmissionConsumer::Waiting() {
  const std::uint64_t tail = requests_header_->submission_tail.load(std::memory_order_seq_cst);
  if (tail < tail_) {
    return Fail(Code::kCorrupt, "submission_tail: moved backwards from ", tail_, " to ", tail);
  }
  if (tail - head_ > entry_mask_ + 1) {
    return Fail(Code::kCorrupt, "submission_tail: ", tail, " is ", tail - head_,
                " ahead, the ring has ", entry_mask_ + 1, " entries");
  }
  tail_ = tail;
  return static_cast<std::uint32_t>(tail_ - head_);
}

Result<std::optional<wire::Submission>> SubmissionConsumer::Peek(std::uint32_t ahead) {
  KVD_TRY(const std::uint32_t waiting, Waiting());
  if (ahead >= waiting) return std::nullopt;
  return CopyEntry<wire::Submission>(entries_.data() +
                                     ((head_ + ahead) & entry_mask_) * sizeof(wire::Submission));
}

Result<bool> SubmissionConsumer::Take(ReceivedSubmission& into, std::uint64_t tokens_max,
                                      const Admit& admit) {
  if (head_ == tail_) {
    KVD_TRY(const std::uint32_t waiting, Waiting());
    if (waiting == 0) return false;
  }
  into.submission = CopyEntry<wire::Submission>(entries_.data() +
                                                (head_ & entry_mask_) * sizeof(wire::Submission));
  into.check = wire::ValidateSubmission(into.submission,
                                        {.arena_bytes = arena_.size(), .tokens_max = tokens_max});
  if (into.check && admit) into.check = admit(into.submission);
  MakeRoom(into);
  CopyPayload(arena_.subspan(into.check ? into.submission.payload_offset : 0, into.payload.size()),
              into.payload);
  ++head_;
  results_header_->submission_head.store(head_, std::memory_order_release);
  return true;
}

}  // namespace kvd
