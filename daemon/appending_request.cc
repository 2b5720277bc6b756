#include "daemon/appending_request.h"

namespace kvd {

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
