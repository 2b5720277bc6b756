// How an answer continues that of an earlier process, which was killed. The pieces of its journal
// are taken without the daemon. When they are used up and the answer has not ended, it takes its
// slot and its sequence again, and resumes the generation. Where that fails, it computes itself
// again.
#include <algorithm>
#include <utility>

#include "http/answer/answer.h"

namespace kvd::http {

Status Answer::BeginAgain(LoggedStart start) {
  cells_ = start.cells;
  is_branch_ = start.is_branch;
  end_.slot = start.slot;
  end_.prompt_tokens = start.prompt_tokens;
  end_.cached_tokens = start.cached_tokens;
  end_.cache = start.cache;
  has_counted_prompt_ = start.has_counted_prompt;
  is_resumed_ = was_resumed_ = true;
  start_ = std::move(start);
  return Generate(start_.first, start_.flags);
}

Await<Status> Answer::Claim() {
  if (sequence_ != SequenceHandle::kNone) co_return Status();
  if (start_.first > request_.prompt.size()) {
    co_return Fail(Code::kCorrupt, "the journal belongs to another prompt");
  }
  if (!is_branch_) {
    if (start_.slot >= tenant_.slots().count()) {
      co_return Fail(Code::kNotFound, "slot ", start_.slot, ": there are fewer slots now");
    }
    const AttemptPause pause(request_.journal.get());
    lease_ = co_await SlotLease::Acquire(tenant_.slots(), start_.slot, request_.prompt);
  }
  {
    const AttemptPause pause(request_.journal.get());
    KVD_CO_TRY(session_, co_await tenant_.WaitForSession());
  }
  if (start_.session != session_->mark()) {
    co_return Fail(Code::kSessionLost, "the session that made the answer has ended");
  }
  sequence_ = static_cast<SequenceHandle>(start_.sequence);
  if (lease_) {
    Slot& slot = lease_.slot();
    if (slot.sequence != sequence_ && slot.sequence != SequenceHandle::kNone) {
      session_->RetainLater(slot.sequence);
    }
    slot.sequence = sequence_;
    lease_.Note();
    slot.tokens = request_.prompt;
    slot.are_tokens_unknown = true;
    slot.is_edited = kept_.has_value();
    slot.kept = kept_.value_or(0);
    slot.prompt_tokens = end_.prompt_tokens;
    slot.cached_tokens = end_.cached_tokens;
    slot.decoded_tokens = end_.predicted_tokens;
  }
  request_.journal->Claim(request_.number);
  co_return Status();
}

Await<Status> Answer::Resume() {
  KVD_CO_CHECK_OK(co_await Claim());
  KVD_CO_TRY(stream_, StartStream());
  co_return Status();
}

Await<Status> Answer::StartOver() {
  stream_.reset();
  if (is_branch_ && sequence_ != SequenceHandle::kNone) session_->DropLater(sequence_);
  sequence_ = SequenceHandle::kNone;
  is_resumed_ = is_uncertain_ = false;
  was_resumed_ = true;
  if (repeated_ && !repeated_->is_all()) {
    repeated_->at = repeated_->text_at = 0;
  } else {
    repeated_ = Repeated{.tokens = predicted_, .text_bytes = text_bytes_};
  }
  predicted_.clear();
  ResetBudget();
  text_bytes_ = 0;
  end_.predicted_tokens = 0;
  end_.is_truncated = false;
  is_result_logged_ = false;
  kept_.reset();
  {
    const AttemptPause pause(request_.journal.get());
    KVD_CO_TRY(session_, co_await tenant_.WaitForSession());
  }
  cells_ = end_.prompt_tokens;
  if (is_branch_) {
    KVD_CO_TRY(sequence_, co_await session_->Create());
  } else {
    if (!lease_) {
      const bool has_slot = end_.slot < tenant_.slots().count();
      const auto number = has_slot ? std::optional(end_.slot) : std::nullopt;
      const AttemptPause pause(request_.journal.get());
      lease_ = co_await SlotLease::Acquire(tenant_.slots(), number, request_.prompt);
    }
    Slot& slot = lease_.slot();
    KVD_CO_TRY([[maybe_unused]] const std::size_t none, co_await TakeFreshSequence(slot));
    sequence_ = slot.sequence;
    lease_.Note();
    slot.tokens = request_.prompt;
    slot.are_tokens_unknown = true;
    slot.is_edited = false;
  }
  if (request_.journal) request_.journal->Claim(request_.number);
  if (is_cancelled_) co_return Fail(Code::kCancelled, "the answer was cancelled");
  co_return Generate(0, 0);
}

Status Answer::RemoveRepeated(GeneratedPiece& piece) {
  Repeated& known = *repeated_;
  if (piece.is_progress) {
    piece = {};
    return {};
  }
  const std::size_t tokens = std::min(piece.tokens.size(), known.tokens.size() - known.at);
  const auto first = known.tokens.begin() + static_cast<std::ptrdiff_t>(known.at);
  if (!std::equal(first, first + static_cast<std::ptrdiff_t>(tokens), piece.tokens.begin())) {
    return Fail(Code::kConflict, "the daemon has lost the answer, and computes another one");
  }
  known.at += tokens;
  piece.tokens.erase(piece.tokens.begin(),
                     piece.tokens.begin() + static_cast<std::ptrdiff_t>(tokens));
  const std::size_t records = std::min(tokens * (1 + logprobs_sent_), piece.logprobs.size());
  piece.logprobs.erase(piece.logprobs.begin(),
                       piece.logprobs.begin() + static_cast<std::ptrdiff_t>(records));
  const std::size_t bytes = std::min(piece.text.size(), known.text_bytes - known.text_at);
  known.text_at += bytes;
  piece.text.erase(0, bytes);
  return {};
}

Await<Result<std::optional<GeneratedPiece>>> Answer::NextPiece() {
  AnswerJournal* const journal = request_.journal.get();
  Status resumed;
  if (is_resumed_) {
    if (auto piece = journal->TakePiece(request_.number)) {
      received_ += static_cast<std::uint32_t>(piece->tokens.size());
      if (!piece->tokens.empty()) last_received_ = piece->tokens.back();
      co_return std::move(piece);
    }
    if (const auto result = journal->TakeResult(request_.number)) {
      result_ = *result;
      is_result_logged_ = true;
      is_resumed_ = false;
      co_return std::nullopt;
    }
    if (is_cancelled_) co_return Fail(Code::kCancelled, "the answer was cancelled");
    resumed = co_await Resume();
    is_resumed_ = false;
    is_uncertain_ = true;
  }
  Result<std::optional<GeneratedPiece>> piece =
      std::unexpected(Error{Code::kInternal, "no generation"});
  if (resumed) {
    const AttemptPause pause(journal);
    piece = co_await stream_->Next();
  } else {
    piece = std::unexpected(std::move(resumed).error());
  }
  if (!piece && journal != nullptr && piece.error().code != Code::kCancelled &&
      (is_uncertain_ || piece.error().code == Code::kSessionLost)) {
    KVD_CO_CHECK_OK(co_await StartOver());
    const AttemptPause pause(journal);
    piece = co_await stream_->Next();
  }
  if (!piece) co_return std::unexpected(std::move(piece).error());
  is_uncertain_ = false;
  if (*piece) {
    if (log() != nullptr) log()->Put(**piece, request_.number);
    co_return std::move(piece);
  }
  result_ = stream_->result();
  is_result_logged_ = false;
  if (log() != nullptr) log()->Put(result_, request_.number);
  co_return std::nullopt;
}

}  // namespace kvd::http
