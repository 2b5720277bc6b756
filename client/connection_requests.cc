// The calls of a connection: a request is sent, its answer or its pieces are waited for, and it is
// cancelled or abandoned. How threads wait: connection.cc.
#include <chrono>
#include <utility>

#include "client/connection.h"
#include "shm/peer_socket.h"

namespace kvd {
namespace {

constexpr std::chrono::milliseconds kForgetfulWait{100};

std::unexpected<Error> TimedOut() {
  return Fail(Code::kTimeout, "no answer from the daemon in the time allowed");
}

}  // namespace

Result<wire::Completion> Connection::TakeFinal(PendingRequest* request,
                                               std::vector<std::byte>* output) {
  const wire::Completion final = request->final;
  if (final.code != static_cast<std::uint8_t>(Code::kOk)) {
    Error error = ErrorOf(*request);
    requests_.Free(request);
    return std::unexpected(std::move(error));
  }
  // The buffers are swapped, not moved, so that the request keeps a buffer with capacity.
  if (output != nullptr) output->swap(request->collected);
  requests_.Free(request);
  return final;
}

Result<wire::Completion> Connection::Call(wire::Submission submission, const Payload& payload,
                                          std::vector<std::byte>* output) {
  KVD_CHECK_OK(CheckProcess());
  const Deadline deadline = DeadlineOf(call_timeout_);
  const MutexLock lock(mutex_);
  KVD_TRY(PendingRequest * request, SubmitLocked(submission, payload, OutputMode::kCollect));
  while (!request->is_final) {
    auto is_in_time = WaitRound(deadline);
    if (request->is_final) break;
    if (!is_in_time) {
      requests_.Free(request);
      return std::unexpected(std::move(is_in_time).error());
    }
    if (!*is_in_time) {
      AbandonLocked(request);
      return TimedOut();
    }
  }
  return TakeFinal(request, output);
}

Result<RequestId> Connection::Submit(wire::Submission submission, const Payload& payload,
                                     OutputMode mode) {
  KVD_CHECK_OK(CheckProcess());
  const MutexLock lock(mutex_);
  KVD_TRY(const PendingRequest* request, SubmitLocked(submission, payload, mode));
  return request->id;
}

Status Connection::Repeat(const EarlierAttempt& earlier, wire::Submission submission,
                          const Payload& payload, OutputMode mode) {
  KVD_CHECK_OK(CheckProcess());
  const MutexLock lock(mutex_);
  if (earlier.request == RequestId{}) return Fail(Code::kInvalidArgument, "request: 0");
  if (requests_.Find(earlier.request) != nullptr) {
    return Fail(Code::kConflict, "request ", static_cast<std::uint64_t>(earlier.request),
                ": already in flight");
  }
  KVD_CHECK_OK(SubmitLocked(submission, payload, mode, &earlier));
  return is_lost_ ? Status() : SendUnsent();
}

Result<wire::Completion> Connection::Finish(RequestId id, Timeout timeout,
                                            std::vector<std::byte>* output) {
  KVD_CHECK_OK(CheckProcess());
  const Deadline deadline = DeadlineOf(timeout);
  const MutexLock lock(mutex_);
  for (;;) {
    PendingRequest* request = requests_.Find(id);
    if (request == nullptr || request->is_abandoned || request->mode != OutputMode::kCollect) {
      return Fail(Code::kNotFound, "request ", static_cast<std::uint64_t>(id),
                  ": not in flight, or its answer was taken");
    }
    if (request->is_final) return TakeFinal(request, output);
    auto is_in_time = WaitRound(deadline);
    if (is_in_time && *is_in_time) continue;
    request = requests_.Find(id);
    if (request == nullptr || request->is_final) continue;
    if (is_in_time) return TimedOut();
    requests_.Free(request);
    return std::unexpected(std::move(is_in_time).error());
  }
}

void Connection::SubmitAndForget(wire::Submission submission, const Payload& payload) {
  if (!CheckProcess()) return;
  const MutexLock lock(mutex_);
  const auto request = SubmitLocked(submission, payload, OutputMode::kCollect);
  if (!request) return;
  const RequestId id = (*request)->id;
  (*request)->is_abandoned = true;
  // A queued request is sent by a later call on the connection, and there may be no later call, so
  // this call waits for room in the ring for up to kForgetfulWait.
  const Deadline deadline = DeadlineOf(kForgetfulWait);
  for (;;) {
    const PendingRequest* const found = requests_.Find(id);
    if (found == nullptr || found->was_sent || is_lost_ || deadline.has_passed()) return;
    if (!WaitRound(Soon(deadline))) return;
  }
}

Result<Connection::Piece> Connection::Next(RequestId id, Timeout timeout) {
  KVD_CHECK_OK(CheckProcess());
  const Deadline deadline = DeadlineOf(timeout);
  const MutexLock lock(mutex_);
  for (;;) {
    PendingRequest* request = requests_.Find(id);
    if (request == nullptr || request->is_abandoned || request->mode != OutputMode::kInPlace) {
      return Fail(Code::kNotFound, "request ", static_cast<std::uint64_t>(id),
                  ": not in flight, or its last piece was taken");
    }
    if (request->has_piece()) {
      const auto taken = request->pieces[request->pieces_taken++];
      if (!request->has_piece()) {
        request->pieces.clear();
        request->pieces_taken = 0;
      }
      Piece piece{taken.completion, {}, taken.ticket};
      if (taken.ticket != 0) {
        const Link* const link = FindLink(taken.ticket);
        piece.output = link->channel.completions().output(taken.completion);
      }
      if ((taken.completion.flags & wire::kMore) == 0) requests_.Free(request);
      return piece;
    }
    if (request->is_final) {
      Error error = ErrorOf(*request);
      requests_.Free(request);
      return std::unexpected(std::move(error));
    }
    auto is_in_time = WaitRound(deadline);
    if (is_in_time && *is_in_time) continue;
    request = requests_.Find(id);
    if (request == nullptr || request->has_piece() || request->is_final) continue;
    if (is_in_time) return TimedOut();
    requests_.Free(request);
    return std::unexpected(std::move(is_in_time).error());
  }
}

bool Connection::Release(std::uint64_t ticket) {
  if (!CheckProcess()) return false;
  const MutexLock lock(mutex_);
  const bool was_held = ReleaseLocked(ticket);
  if (was_held) RingIfStalled();
  return was_held;
}

Result<std::size_t> Connection::WaitAny(std::span<const RequestId> ids, Timeout timeout) {
  KVD_CHECK_OK(CheckProcess());
  const Deadline deadline = DeadlineOf(timeout);
  const MutexLock lock(mutex_);
  for (;;) {
    bool has_any = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const PendingRequest* request = requests_.Find(ids[i]);
      if (request == nullptr || request->is_abandoned) continue;
      if (request->has_piece() || request->is_final) return i;
      has_any = true;
    }
    if (!has_any) {
      if (events_ != nullptr && !failure_ && !ArmEvents()) {
        if (!is_lost_ && !failure_) KVD_CHECK_OK(PumpAll());
        continue;
      }
      return Fail(Code::kNotFound, "requests: none of them is in flight");
    }
    KVD_TRY(const bool is_in_time, WaitRound(deadline));
    if (is_in_time) continue;
    if (events_ == nullptr || ArmEvents()) return TimedOut();
  }
}

Result<std::vector<RequestId>> Connection::TakeReady() {
  KVD_CHECK_OK(CheckProcess());
  const Deadline at_once = DeadlineOf(Timeout{0});
  const MutexLock lock(mutex_);
  for (;;) {
    std::vector<RequestId> ready = requests_.Ready();
    if (!ready.empty()) return ready;
    KVD_CHECK_OK(Failure());
    if (requests_.count() != 0) {
      KVD_TRY(const bool is_in_time, WaitRound(at_once));
      if (is_in_time) continue;
    }
    if (ArmEvents()) return ready;
    if (!is_lost_ && !failure_) KVD_CHECK_OK(PumpAll());
  }
}

Result<bool> Connection::Cancel(RequestId id) {
  KVD_TRY(const wire::Completion completion,
          Call(wire::MakeSubmission(wire::CancelArgs{id}), {}, nullptr));
  std::vector<std::byte> no_output;
  KVD_TRY(const auto reply, wire::ReadReply<wire::CancelReply>("cancel", completion, no_output));
  return reply.was_found;
}

void Connection::Abandon(RequestId id) {
  if (!CheckProcess()) return;
  const MutexLock lock(mutex_);
  PendingRequest* request = requests_.Find(id);
  if (request != nullptr && !request->is_abandoned) AbandonLocked(request);
  RingIfStalled();
}

void Connection::AbandonLocked(PendingRequest* request) {
  for (std::size_t i = request->pieces_taken; i < request->pieces.size(); ++i) {
    if (request->pieces[i].ticket != 0) (void)ReleaseLocked(request->pieces[i].ticket);
  }
  request->pieces.clear();
  request->pieces_taken = 0;
  if (request->is_final || failure_) {
    requests_.Free(request);
    return;
  }
  request->is_abandoned = true;
  request->collected.clear();
  CancelLocked(request->id);
}

// Submits a kCancel without waiting for its answer, if the ring has room now.
void Connection::CancelLocked(RequestId id) {
  // If the link is lost or requests are queued, no kCancel is sent: the request is abandoned, so it
  // is not sent again.
  if (is_lost_ || !unsent_.empty()) return;
  const auto room = link_->channel.submissions().Reserve(0);
  PendingRequest* request = room && *room ? requests_.Add(OutputMode::kCollect) : nullptr;
  if (request == nullptr) return;
  request->is_abandoned = true;
  wire::Submission submission = wire::MakeSubmission(wire::CancelArgs{id});
  submission.request = static_cast<std::uint64_t>(request->id);
  request->submission = submission;
  request->was_sent = true;
  if (link_->channel.submissions().Submit(submission)) (void)RingDoorbell(link_->socket.get());
}

}  // namespace kvd
