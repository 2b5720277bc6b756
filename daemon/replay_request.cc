#include "daemon/replay_request.h"

#include <utility>

namespace kvd {

ReplayRequest::ReplayRequest(RequestOrigin origin, Engine& engine, SequenceHandle sequence,
                             PosRange range, const AppliedRequest& applied, AfterReplay after)
    : ComputingRequest(std::move(origin), sequence),
      engine_(engine),
      range_(range),
      applied_(applied),
      after_(std::move(after)) {}

ReplayRequest::~ReplayRequest() { Undo(); }

void ReplayRequest::Undo() {
  if (rewind_) engine_.memory().AbandonRewind(*rewind_);
  rewind_.reset();
  if (const auto undo = std::exchange(after_.undo, nullptr)) undo();
}

Status ReplayRequest::Advance(bool* is_done) {
  if (!rewind_) {
    Rewind rewind;
    rewind.applied = applied_;
    KVD_CHECK_OK(engine_.memory().BeginRewind(sequence(), range_, &rewind));
    rewind_ = std::move(rewind);
  }
  Result<bool> replayed = engine_.Replay(*rewind_);
  if (!replayed) {
    rewind_.reset();  // over by itself
    return std::unexpected(std::move(replayed).error());
  }
  *is_done = *replayed;
  return {};
}

void ReplayRequest::RunAlone(Engine&) {
  bool is_done = false;
  if (Status status = Advance(&is_done); !status) {
    Undo();
    return EndWith(status.error());
  }
  if (!is_done) return TryProgress(rewind_->done, rewind_->tokens.size());
  const Rewind rewind = *std::exchange(rewind_, std::nullopt);
  Result<AfterReplay::Answer> answer = after_.finish(rewind);
  if (!answer) {
    Undo();
    return EndWith(answer.error());
  }
  after_.undo = nullptr;
  wire::Completion completion = MakeCompletion();
  completion.sequence = answer->completion.sequence;
  completion.value0 = answer->completion.value0;
  completion.value1 = answer->completion.value1;
  completion.value2 = answer->completion.value2;
  SetFinal({.completion = completion, .output = std::move(answer->output)});
}

void ReplayRequest::OnCancel() {
  Undo();
  ComputingRequest::OnCancel();
}

}  // namespace kvd
