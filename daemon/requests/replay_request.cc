#include "daemon/requests/replay_request.h"

#include <algorithm>
#include <utility>

namespace kvd {

ReplayRequest::ReplayRequest(RequestOrigin origin, Engine& engine, SequenceHandle sequence,
                             PosRange range, const RequestTag& applied, AfterReplay after)
    : ComputingRequest(std::move(origin), sequence),
      engine_(engine),
      range_(range),
      applied_(applied),
      after_(std::move(after)) {}

ReplayRequest::~ReplayRequest() { Undo(); }

void ReplayRequest::Undo() {
  rewind_.reset();
  if (const auto undo = std::exchange(after_.undo, nullptr)) undo();
}

std::size_t ReplayRequest::work_left() const {
  if (finishing()) return 0;
  return rewind_ ? std::max<std::size_t>(rewind_->tokens.size() - rewind_->done, 1) : 1;
}

Result<bool> ReplayRequest::Advance(std::size_t tokens) {
  if (!rewind_) {
    KVD_TRY(rewind_, engine_.memory().states().BeginRewind(sequence(), range_, applied_));
    return false;
  }
  Result<bool> replayed = engine_.Replay(*rewind_, tokens);
  if (!replayed) rewind_.reset();  // a Replay that fails has already ended the rewind
  return replayed;
}

void ReplayRequest::DoWork(Engine&, std::size_t tokens) {
  const Result<bool> is_done = Advance(tokens);
  if (!is_done) {
    Undo();
    return EndWith(is_done.error());
  }
  if (!*is_done) return TryProgress(rewind_->done, rewind_->tokens.size());
  const Rewind rewind = std::move(*std::exchange(rewind_, std::nullopt));
  Result<WireReply> reply = after_.finish(rewind);
  if (!reply) {
    Undo();
    return EndWith(reply.error());
  }
  after_.undo = nullptr;
  reply->SetRequest(id(), static_cast<std::uint16_t>(origin().verb));
  SetFinal(std::move(*reply));
}

void ReplayRequest::OnCancel() {
  Undo();
  ComputingRequest::OnCancel();
}

}  // namespace kvd
