#include "http/answer/shifted_source.h"

#include <algorithm>

namespace kvd::http {

Status ShiftedSource::Begin(const GenerationPart& part) {
  part_ = part;
  left_ = part.tokens_max;
  return BeginWithinRoom(part);
}

Status ShiftedSource::BeginWithinRoom(GenerationPart part) {
  const std::uint32_t room =
      std::min<std::uint32_t>(context_.room(), static_cast<std::uint32_t>(part.kNoLimit));
  part.tokens_max = std::min(left_, static_cast<std::int32_t>(room));
  // A generation that a shift continues has its last token computed.
  part.may_skip_last = part.may_skip_last && (part.tokens_max == left_ || !shifts_);
  return inner_.Begin(part);
}

Await<Result<bool>> ShiftedSource::GoesOn() {
  const bool is_full = EndsAtLimit(inner_.result()) && context_.room() == 0 && left_ > 0;
  is_truncated_ = is_truncated_ || is_full;
  if (!is_full || !shifts_) co_return false;
  KVD_CO_TRY(const bool is_first, co_await inner_.Prepare());
  KVD_CO_TRY(const bool has_shifted, co_await context_.Shift(!is_first));
  if (!has_shifted) co_return false;
  KVD_CO_CHECK_OK(BeginWithinRoom({.tokens = {},
                                   .first = part_.next_first(),
                                   .flags = wire::kContinue | wire::kResumeSampler,
                                   .may_skip_last = part_.may_skip_last}));
  co_return true;
}

Await<Result<std::optional<AnswerPiece>>> ShiftedSource::Next() {
  for (;;) {
    KVD_CO_TRY(std::optional<AnswerPiece> piece, co_await inner_.Next());
    if (piece) {
      if (left_ != GenerationPart::kNoLimit)
        left_ -= static_cast<std::int32_t>(piece->tokens.size());
      co_return piece;
    }
    KVD_CO_TRY(const bool goes_on, co_await GoesOn());
    if (!goes_on) co_return std::nullopt;
  }
}

}  // namespace kvd::http
