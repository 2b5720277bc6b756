#include "http/answer/piece_source.h"

#include <algorithm>
#include <utility>

namespace kvd::http {

Status ShiftedSource::Begin(const GenerationPortion& portion) {
  portion_ = portion;
  left_ = portion.tokens_max;
  return BeginWithinRoom(portion);
}

Status ShiftedSource::BeginWithinRoom(GenerationPortion portion) {
  const std::uint32_t room =
      std::min<std::uint32_t>(context_.room(), static_cast<std::uint32_t>(portion.kNoLimit));
  portion.tokens_max = std::min(left_, static_cast<std::int32_t>(room));
  // A generation that a shift continues has its last token computed.
  portion.may_skip_last = portion.may_skip_last && (portion.tokens_max == left_ || !shifts_);
  return inner_.Begin(portion);
}

Await<Result<bool>> ShiftedSource::GoesOn() {
  const bool is_full = EndsAtLimit(inner_.result()) && context_.room() == 0 && left_ > 0;
  is_truncated_ = is_truncated_ || is_full;
  if (!is_full || !shifts_) co_return false;
  KVD_CO_TRY(const bool is_first, co_await inner_.Prepare());
  KVD_CO_TRY(const bool has_shifted, co_await context_.Shift(!is_first));
  if (!has_shifted) co_return false;
  KVD_CO_CHECK_OK(BeginWithinRoom({.tokens = {},
                                   .first = portion_.next_first(),
                                   .flags = wire::kContinue | wire::kResumeSampler,
                                   .may_skip_last = portion_.may_skip_last}));
  co_return true;
}

Await<Result<std::optional<AnswerPiece>>> ShiftedSource::Next() {
  for (;;) {
    KVD_CO_TRY(std::optional<AnswerPiece> piece, co_await inner_.Next());
    if (piece) {
      if (left_ != GenerationPortion::kNoLimit)
        left_ -= static_cast<std::int32_t>(piece->tokens.size());
      co_return piece;
    }
    KVD_CO_TRY(const bool goes_on, co_await GoesOn());
    if (!goes_on) co_return std::nullopt;
  }
}

namespace {

std::string_view WithoutLeadingSpace(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

}  // namespace

ReasoningBudget::ReasoningBudget(ReasoningLimit limit) : limit_(std::move(limit)) {
  if (limit_.starts_in_reasoning) {
    Begin();
  } else if (!limit_.open.empty()) {
    state_ = State::kBefore;
    room_ = static_cast<std::uint32_t>(limit_.open.size()) + limit_.token_count;
  }
}

void ReasoningBudget::Begin() {
  state_ = State::kInside;
  room_ = limit_.token_count;
  matched_ = 0;
  text_.clear();
}

// A mismatch begins again with the present token: tags do not begin like their own middle.
bool ReasoningBudget::Advance(const std::vector<TokenId>& tag, TokenId token,
                              std::size_t& matched) {
  if (tag[matched] != token) matched = 0;
  if (tag[matched] == token) ++matched;
  if (matched < tag.size()) return false;
  matched = 0;
  return true;
}

void ReasoningBudget::Take(std::span<const TokenId> tokens, std::string_view text) {
  const bool was_before = state_ == State::kBefore;
  for (const TokenId token : tokens) {
    if (state_ == State::kOver) return;
    if (room_ > 0) --room_;
    if (state_ == State::kInside) {
      if (Advance(limit_.close, token, matched_)) state_ = State::kOver;
    } else if (Advance(limit_.open, token, matched_)) {
      Begin();
    }
  }
  if (was_before && state_ != State::kBefore) return;  // the text has the tag
  text_ += text;
  if (state_ == State::kBefore) {
    if (WithoutLeadingSpace(text_).starts_with(limit_.open_text)) Begin();
  } else if (text_.find(limit_.close_text) != std::string::npos) {
    state_ = State::kOver;
  } else if (text_.size() > limit_.close_text.size()) {
    text_.erase(0, text_.size() - limit_.close_text.size());
  }
}

bool ReasoningBudget::MayBegin() const {
  return matched_ > 0 || limit_.open_text.starts_with(WithoutLeadingSpace(text_));
}

bool ReasoningBudget::EndPortion() {
  if (state_ == State::kBefore) {
    if (MayBegin()) {
      room_ = 1 + limit_.token_count;
    } else {
      state_ = State::kOver;
    }
    return false;
  }
  if (state_ != State::kInside || room_ > 0) return false;
  state_ = State::kOver;
  return true;
}

Status BudgetedSource::Begin(const GenerationPortion& portion) {
  portion_ = portion;
  left_ = portion.tokens_max;
  return BeginPortion(portion);
}

Status BudgetedSource::BeginPortion(GenerationPortion portion) {
  portion.tokens_max = left_;
  if (!budget_.is_over()) {
    portion.tokens_max = std::min(left_, static_cast<std::int32_t>(budget_.room()));
    // A portion that ends before the generation is continued.
    portion.may_skip_last = portion.may_skip_last && portion.tokens_max == left_;
  }
  return inner_.Begin(portion);
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
  GenerationPortion portion{.tokens = {},
                            .first = portion_.next_first(),
                            .flags = wire::kResumeSampler,
                            .may_skip_last = portion_.may_skip_last};
  std::optional<AnswerPiece> forced;
  if (is_forced) {
    const std::span<const TokenId> tokens(budget_.forced());
    portion.tokens = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(left_)));
    forced.emplace();
    KVD_CO_TRY(forced->text, co_await text_of_(portion.tokens));
    forced->tokens.assign(portion.tokens.begin(), portion.tokens.end());
    Count(*forced);
  }
  if (portion.tokens.empty()) portion.flags |= wire::kContinue;
  KVD_CO_CHECK_OK(BeginPortion(portion));
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
