#include "http/answer/reasoning_budget.h"

#include <utility>

namespace kvd::http {
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

}  // namespace kvd::http
