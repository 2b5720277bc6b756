// DeliveredPrefix: what the caller of an answer has had of it, so that an answer that is computed
// again leaves it out.
//
// Invariant: the pieces behind Take are, one after the other, one answer: no token and no byte of
// text comes twice, and the tokens of an answer that is computed again begin with those before.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "http/backend/answer_piece.h"

namespace kvd::http {

class DeliveredPrefix {
 public:
  // Removes what the caller has had, and notes the rest. After StartOver the piece may be empty
  // then, and progress always is. Errors: kConflict: the tokens differ.
  Status Take(AnswerPiece& piece);
  // The answer is computed again from its first token.
  void StartOver();

  bool has_started_over() const { return has_started_over_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::size_t text_bytes() const { return text_bytes_; }

 private:
  std::vector<TokenId> tokens_;
  std::size_t text_bytes_ = 0;
  std::size_t at_ = 0;       // the next of tokens_
  std::size_t text_at_ = 0;  // the next byte of the text
  bool has_started_over_ = false;
};

}  // namespace kvd::http
