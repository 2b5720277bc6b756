#include "client/request_table.h"

#include <algorithm>
#include <utility>

namespace kvd {
namespace {

constexpr std::uint64_t kIndexMask = RequestTable::kRequestsMax - 1;

}  // namespace

PendingRequest* RequestTable::Add(OutputMode mode, bool is_remembered) {
  if (free_.empty()) {
    if (entries_.size() == kRequestsMax) return nullptr;
    free_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.push_back(std::make_unique<PendingRequest>());
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  PendingRequest* request = entries_[index].get();
  request->id = static_cast<RequestId>(++counter_ * kRequestsMax + index);
  request->mode = mode;
  request->is_remembered = is_remembered;
  return request;
}

PendingRequest* RequestTable::Find(RequestId id) {
  const auto index = static_cast<std::uint64_t>(id) & kIndexMask;
  if (id == RequestId{} || index >= entries_.size() || entries_[index]->id != id) return nullptr;
  return entries_[index].get();
}

std::vector<PendingRequest*> RequestTable::Unanswered() const {
  std::vector<PendingRequest*> unanswered;
  for (const auto& entry : entries_) {
    if (entry->id != RequestId{} && !entry->is_final) unanswered.push_back(entry.get());
  }
  std::ranges::sort(unanswered, {}, &PendingRequest::id);
  return unanswered;
}

std::vector<RequestId> RequestTable::Ready() const {
  std::vector<RequestId> ready;
  for (const auto& entry : entries_) {
    if (entry->id == RequestId{} || entry->is_abandoned) continue;
    if (entry->has_piece() || entry->is_final) ready.push_back(entry->id);
  }
  return ready;
}

void RequestTable::EnterWindow(PendingRequest* request) {
  if (!request->is_remembered || std::exchange(request->is_in_window, true)) return;
  ++window_count_;
}

void RequestTable::LeaveWindow(PendingRequest* request) {
  if (std::exchange(request->is_in_window, false)) --window_count_;
}

void RequestTable::Free(PendingRequest* request) {
  const auto index = static_cast<std::uint64_t>(request->id) & kIndexMask;
  // Free clears the buffers of the entry but keeps their capacity, so that the next request in the
  // entry need not allocate.
  request->id = RequestId{};
  request->is_abandoned = false;
  request->is_final = false;
  request->piece_count = 0;
  request->collected.clear();
  request->pieces.clear();
  request->pieces_taken = 0;
  request->payload.clear();
  request->was_sent = false;
  request->received = 0;
  request->last_token = 0;
  LeaveWindow(request);
  request->is_remembered = false;
  free_.push_back(static_cast<std::uint32_t>(index));
}

}  // namespace kvd
