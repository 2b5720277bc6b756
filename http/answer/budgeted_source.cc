#include "http/answer/budgeted_source.h"

#include <algorithm>
#include <utility>

namespace kvd::http {

Status BudgetedSource::Begin(const GenerationPart& part) {
  part_ = part;
  left_ = part.tokens_max;
  return BeginPortion(part);
}

Status BudgetedSource::BeginPortion(GenerationPart part) {
  part.tokens_max = left_;
  if (!budget_.is_over()) {
    part.tokens_max = std::min(left_, static_cast<std::int32_t>(budget_.room()));
    // A portion that ends before the generation is continued.
    part.may_skip_last = part.may_skip_last && part.tokens_max == left_;
  }
  return inner_.Begin(part);
}

void BudgetedSource::Count(const AnswerPiece& piece) {
  left_ -= static_cast<std::int32_t>(piece.tokens.size());
  if (!piece.is_progress && !budget_.is_over()) budget_.Take(piece.tokens, piece.text);
}

bool BudgetedSource::goes_on() const {
  if (budget_.is_over() || left_ <= 0 || !EndsAtLimit(inner_.result())) return false;
  return inner_.result().predicted > 0 || budget_.room() == 0;
}

Await<Result<std::optional<AnswerPiece>>> BudgetedSource::Continue() {
  const bool is_forced = budget_.EndPortion();
  KVD_CO_TRY([[maybe_unused]] const bool is_first, co_await inner_.Prepare());
  GenerationPart part{.tokens = {},
                      .first = part_.next_first(),
                      .flags = wire::kResumeSampler,
                      .may_skip_last = part_.may_skip_last};
  std::optional<AnswerPiece> forced;
  if (is_forced) {
    const std::span<const TokenId> tokens(budget_.forced());
    part.tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(left_)));
    forced.emplace();
    KVD_CO_TRY(forced->text, co_await text_of_(part.tokens));
    forced->tokens.assign(part.tokens.begin(), part.tokens.end());
    Count(*forced);
  }
  if (part.tokens.empty()) part.flags |= wire::kContinue;
  KVD_CO_CHECK_OK(BeginPortion(part));
  co_return forced;
}

Await<Result<std::optional<AnswerPiece>>> BudgetedSource::Next() {
  for (;;) {
    KVD_CO_TRY(std::optional<AnswerPiece> piece, co_await inner_.Next());
    if (piece) {
      Count(*piece);
      co_return piece;
    }
    if (!goes_on()) co_return std::nullopt;
    KVD_CO_TRY(piece, co_await Continue());
    if (piece) co_return piece;
  }
}

}  // namespace kvd::http
