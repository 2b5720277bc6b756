// How a generation ends: what it has counted, why it stopped, and the shift of the context after
// which the next generation of the same answer continues.
#include <algorithm>
#include <utility>

#include "http/answer/answer.h"
#include "http/answer/conversation.h"

namespace kvd::http {

Await<Result<bool>> Answer::GoesOn() {
  const wire::GenerateResult result = result_;
  Metrics& metrics = tenant_.metrics();
  const std::chrono::nanoseconds prompt_time(result.prompt_ns);
  const std::chrono::nanoseconds predict_time(result.predict_ns);
  if (!is_result_logged_) {
    metrics.prompt_time += prompt_time;
    metrics.predict_time += predict_time;
    metrics.prompt_tokens_computed += result.prompt_computed;
    metrics.predicted_tokens += result.predicted;
  }
  // The prompts of later generations are tokens of the answer.
  (has_counted_prompt_ ? end_.predict_time : end_.prompt_time) += prompt_time;
  end_.predict_time += predict_time;
  if (!has_counted_prompt_) {
    has_counted_prompt_ = true;
    // The first answer behind a ForkContext is charged with the context's tokens, which the metrics
    // have counted.
    const auto first = static_cast<std::uint32_t>(first_);
    const bool is_charged = is_branch_ && end_.cached_tokens < first;
    const std::uint32_t computed =
        result.prompt_computed + (is_charged ? first - end_.cached_tokens : 0);
    end_.cached_tokens = end_.prompt_tokens - std::min(computed, end_.prompt_tokens);
    end_.cache.reused = end_.cached_tokens;
    if (!is_result_logged_ && !is_charged) metrics.prompt_tokens_cached += end_.cached_tokens;
    if (lease_) lease_.slot().cached_tokens = end_.cached_tokens;
    if (result.prompt_shared != 0) {
      end_.cache.source = PrefixOriginName(static_cast<PrefixOrigin>(result.shared_origin));
      end_.cache.limit = PrefixLimitName(static_cast<PrefixLimit>(result.share_limit));
    }
    if (end_.cached_tokens + 1 == end_.prompt_tokens) {
      end_.cache.limit = PrefixLimitName(PrefixLimit::kComplete);
      end_.cache.prompt_text.clear();
      end_.cache.cached_text.clear();
    }
  }
  switch (result.finish) {
    case wire::kFinishEnd: end_.stop_type = StopType::kEos; break;
    case wire::kFinishGrammar:
      end_.stop_type = StopType::kEos;
      end_.ended_by_grammar = true;
      break;
    case wire::kFinishStop:
      end_.stop_type = StopType::kWord;
      end_.stopping_word = co_await FindStop();
      break;
    default: {
      const bool has_moved = result.predicted > 0 || budget_.room() == 0;
      if (!budget_.is_over() && has_moved && room() > 0 && wanted() > 0) {
        KVD_CO_TRY(const bool continues, co_await ContinueBudget());
        if (continues) co_return true;
      }
      const bool is_full = room() == 0 && wanted() > 0;
      end_.is_truncated = end_.is_truncated || is_full;
      if (is_full && request_.shifts_context) {
        KVD_CO_TRY(const bool has_shifted, co_await ShiftContext());
        if (has_shifted) co_return true;
      }
      end_.stop_type = StopType::kLimit;
    }
  }
  stream_.reset();
  turn_.End();
  if (request_.conversation && request_.number == 0 && !kept_) {
    Conversation& conversation = *request_.conversation;
    conversation.model = tenant_.model().id();
    conversation.tokens = request_.prompt;
    conversation.tokens.insert(conversation.tokens.end(), predicted_.begin(), predicted_.end());
  }
  if (lease_) {
    Slot& slot = lease_.slot();
    if (!was_resumed_) slot.are_tokens_unknown = false;
    slot.lacks_last = result.skipped != 0;
    if (slot.lacks_last && !slot.tokens.empty()) slot.tokens.pop_back();
  }
  if (log() != nullptr) log()->PutEnd(request_.number);
  co_return false;
}

Await<Result<bool>> Answer::ClaimOrStartOver() {
  const Status claimed = co_await Claim();
  if (claimed) co_return false;
  KVD_CO_CHECK_OK(co_await StartOver());
  co_return true;
}

Status Answer::GenerateOn(std::optional<LoggedStart> logged, std::uint32_t flags) {
  is_resumed_ = logged.has_value();
  if (logged) start_ = std::move(*logged);
  return Generate(request_.prompt.size(), flags | wire::kResumeSampler);
}

Await<Result<bool>> Answer::ShiftContext() {
  const wire::InfoReply& info = tenant_.model().info();
  const std::uint32_t most = tenant_.model().slot_cells();
  std::uint32_t keep =
      request_.keep < 0 ? end_.prompt_tokens : static_cast<std::uint32_t>(request_.keep);
  keep += info.adds_bos != 0 ? 1 : 0;
  keep = std::min(keep, most > 4 ? most - 4 : 0);
  const std::uint32_t removed = (cells_ - keep) / 2;
  if (removed == 0) co_return false;
  const Pos begin{static_cast<std::int32_t>(keep)};
  const Pos end{static_cast<std::int32_t>(keep + removed)};
  auto logged = log() != nullptr ? log()->TakeStart(request_.number) : std::nullopt;
  if (!logged) {
    KVD_CO_TRY(const bool has_started_over, co_await ClaimOrStartOver());
    if (has_started_over) co_return true;
    // An earlier process may have been killed between the two verbs, so what was done is asked for.
    KVD_CO_TRY(const wire::SequenceEntry before, co_await session_->Query(sequence_));
    if (before.cell_count == cells_) {
      const PosRange range{.begin = begin, .end = end};
      const Status has_removed = co_await session_->RemoveRange(sequence_, range);
      if (!has_removed) co_return false;  // a window or a recurrent state does not allow it
    }
    if (before.next_pos == static_cast<std::int32_t>(cells_)) {
      const PosRange rest{.begin = end, .end = kPosEnd};
      KVD_CO_CHECK_OK(
          co_await session_->Shift(sequence_, rest, -static_cast<std::int32_t>(removed)));
    }
  }
  cells_ -= removed;
  kept_ = std::min(kept_.value_or(keep), keep);
  if (lease_) {
    Slot& slot = lease_.slot();
    const auto first = slot.tokens.begin() + keep;
    if (slot.tokens.size() >= keep + removed) slot.tokens.erase(first, first + removed);
    slot.kept = slot.is_edited ? std::min(slot.kept, keep) : keep;
    slot.is_edited = true;
  }
  appended_.clear();
  KVD_CO_CHECK_OK(GenerateOn(std::move(logged), wire::kContinue));
  co_return true;
}

void Answer::ResetBudget() {
  budget_ =
      request_.reasoning_limit ? ReasoningBudget(*request_.reasoning_limit) : ReasoningBudget();
  appended_.clear();
  forced_piece_.reset();
}

Await<Result<bool>> Answer::ContinueBudget() {
  const bool is_forced = budget_.EndPortion();
  appended_.clear();
  auto logged = log() != nullptr ? log()->TakeStart(request_.number) : std::nullopt;
  if (!logged) {
    KVD_CO_TRY(const bool has_started_over, co_await ClaimOrStartOver());
    if (has_started_over) co_return true;
  }
  if (is_forced) {
    appended_ = budget_.forced();
    const std::uint32_t most = std::min(room(), static_cast<std::uint32_t>(wanted()));
    if (appended_.size() > most) appended_.resize(most);
    const std::span<const TokenId> tokens(appended_);
    const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
    KVD_CO_TRY(std::string text, co_await session_->Detokenize(tokens, flags));
    forced_piece_.emplace();
    forced_piece_->tokens = appended_;
    forced_piece_->text = std::move(text);
    Count(*forced_piece_);
  }
  KVD_CO_CHECK_OK(GenerateOn(std::move(logged), appended_.empty() ? wire::kContinue : 0u));
  co_return true;
}

Await<std::string> Answer::FindStop() {
  if (request_.stops.size() == 1) co_return request_.stops.front();
  const std::uint16_t flags = FlagIf(request_.shows_special, wire::kFlagSpecial);
  const auto text = co_await session_->Detokenize(predicted_, flags);
  if (!text) co_return std::string();
  // The daemon has cut the answer where the stop text begins.
  const std::string* found = nullptr;
  std::size_t found_at = std::string::npos;
  for (const std::string& stop : request_.stops) {
    const std::size_t least = std::min(text_bytes_, text->size());
    std::size_t at = text->find(stop, least > 0 ? least - 1 : 0);
    if (at != std::string::npos && (found == nullptr || at < found_at)) {
      found = &stop;
      found_at = at;
    }
  }
  co_return found == nullptr ? std::string() : *found;
}

}  // namespace kvd::http
