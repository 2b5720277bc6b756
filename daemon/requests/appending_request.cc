#include "daemon/requests/appending_request.h"

#include <utility>

namespace kvd {

Result<bool> TakeBack::Advance(Engine& engine, std::size_t tokens_max) {
  if (!rewind_) {
    const auto removed = engine.memory().sequences().RemoveRange(sequence_, {first_, kPosEnd});
    if (removed) return true;
    if (removed.error().code != Code::kNeedsReplay) return std::unexpected(removed.error());
    // TakeBack's rewind has no tag, so that the tags of the request's own commits stay.
    KVD_TRY(rewind_, engine.memory().states().BeginRewind(sequence_, {first_, kPosEnd}));
    return false;  // now the number of tokens to replay is known
  }
  Result<bool> replayed = engine.Replay(*rewind_, tokens_max);
  // A Replay that fails or completes has ended the rewind.
  if (!replayed || *replayed) rewind_.reset();
  return replayed;
}

void AppendingRequest::DoWork(Engine& engine, std::size_t tokens) {
  const Result<bool> is_done = take_back_->Advance(engine, tokens);
  if (is_done && !*is_done) return;
  take_back_.reset();
  if (!failure_) {
    if (!is_done) return EndWith(is_done.error());
    return OnTakenBack();
  }
  // kNotFound means that the sequence was dropped, so there are no tokens to remove.
  const bool is_back = is_done || is_done.error().code == Code::kNotFound;
  if (is_back) NoteTakenBack();
  if (!is_back) failure_->message += "; the appended tokens stay: " + is_done.error().message;
  EndWith(*failure_);
}

void AppendingRequest::FailWith(const Error& error) {
  const std::optional<Pos> first = FirstAppended();
  if (!first) return EndWith(error);
  failure_ = error;
  TakeBackFrom(*first);
}

void AppendingRequest::OnCancel() {
  take_back_.reset();
  ComputingRequest::OnCancel();
}

}  // namespace kvd
