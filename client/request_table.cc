#include "client/request_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace kvd {
namespace {

constexpr std::uint64_t kIndexMask = RequestTable::kRequestsMax - 1;
constexpr std::uint64_t kCounterMax =
    std::numeric_limits<std::uint64_t>::max() / RequestTable::kRequestsMax;

}  // namespace

PendingRequest* RequestTable::Add(OutputMode mode, bool is_remembered) {
  if (count() >= kRequestsMax) return nullptr;
  if (free_.empty()) {
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

PendingRequest* RequestTable::Adopt(RequestId id, OutputMode mode, bool is_remembered) {
  KVD_ASSERT(id != RequestId{} && Find(id) == nullptr);
  if (count() >= kRequestsMax) return nullptr;
  PendingRequest& request = adopted_[id];
  request.id = id;
  request.mode = mode;
  request.is_remembered = is_remembered;
  counter_ = std::max(counter_, static_cast<std::uint64_t>(id) / kRequestsMax);
  return &request;
}

void RequestTable::BeginFarAfter(std::uint64_t request) {
  BeginAfter(request);
  counter_ += std::min(kIdsSkipped, (kCounterMax - counter_) / 2);
}

PendingRequest* RequestTable::Find(RequestId id) {
  const auto index = static_cast<std::uint64_t>(id) & kIndexMask;
  if (id == RequestId{}) return nullptr;
  if (index < entries_.size() && entries_[index]->id == id) return entries_[index].get();
  const auto adopted = adopted_.find(id);
  return adopted == adopted_.end() ? nullptr : &adopted->second;
}

std::vector<PendingRequest*> RequestTable::Unanswered() {
  std::vector<PendingRequest*> unanswered;
  for (auto& [id, request] : adopted_) {
    if (!request.is_final) unanswered.push_back(&request);
  }
  for (const auto& entry : entries_) {
    if (entry->id != RequestId{} && !entry->is_final) unanswered.push_back(entry.get());
  }
  std::ranges::sort(unanswered, {}, &PendingRequest::id);
  return unanswered;
}

std::vector<RequestId> RequestTable::Ready() const {
  std::vector<RequestId> ready;
  const auto add_if_ready = [&](const PendingRequest& request) {
    if (request.id == RequestId{} || request.is_abandoned) return;
    if (request.has_piece() || request.is_final) ready.push_back(request.id);
  };
  for (const auto& [id, request] : adopted_) add_if_ready(request);
  for (const auto& entry : entries_) add_if_ready(*entry);
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
  if (index >= entries_.size() || entries_[index].get() != request) {
    const RequestId id = request->id;
    LeaveWindow(request);
    adopted_.erase(id);
    return;
  }
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
