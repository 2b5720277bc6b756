#include "http/answer/delivered_prefix.h"

#include <algorithm>

namespace kvd::http {

void DeliveredPrefix::StartOver() {
  at_ = text_at_ = 0;
  has_started_over_ = true;
}

Status DeliveredPrefix::Take(AnswerPiece& piece) {
  if (piece.is_progress) {
    if (has_started_over_) piece = {};
    return {};
  }
  const std::size_t known = std::min(piece.tokens.size(), tokens_.size() - at_);
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(at_);
  if (!std::equal(first, first + static_cast<std::ptrdiff_t>(known), piece.tokens.begin())) {
    return Fail(Code::kConflict, "the daemon has lost the answer, and computes another one");
  }
  if (known > 0) {
    const std::size_t records = piece.logprobs.size() / piece.tokens.size() * known;
    piece.tokens.erase(piece.tokens.begin(),
                       piece.tokens.begin() + static_cast<std::ptrdiff_t>(known));
    piece.logprobs.erase(piece.logprobs.begin(),
                         piece.logprobs.begin() + static_cast<std::ptrdiff_t>(records));
  }
  const std::size_t bytes = std::min(piece.text.size(), text_bytes_ - text_at_);
  piece.text.erase(0, bytes);
  tokens_.insert(tokens_.end(), piece.tokens.begin(), piece.tokens.end());
  text_bytes_ += piece.text.size();
  at_ += known + piece.tokens.size();
  text_at_ += bytes + piece.text.size();
  return {};
}

}  // namespace kvd::http
