// ReasoningBudget: follows the tokens of an answer, and says when its reasoning must be ended.
//
// The budget counts the tokens behind the tag that opens the reasoning. When it is used up, the
// answer continues with the forced tokens, which close the reasoning. The generation is asked in
// portions, so that no token is drawn beyond the budget: room() is the length of the next portion.
//
// Tags are found as tokens, or as text: a model may write them with other tokens, and a tag that is
// one token may have no text. Reasoning at the beginning of the answer, behind white space, is
// found; later reasoning is not. A ReasoningBudget is a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvd::http {

struct ReasoningLimit {
  std::uint32_t token_count = 0;  // the budget
  std::vector<TokenId> open;      // the tag; empty: reasoning begins only in the prompt
  std::vector<TokenId> close;     // at least one token
  std::vector<TokenId> forced;    // the message, and the tag that closes
  std::string open_text;
  std::string close_text;
  bool starts_in_reasoning = false;
};

class ReasoningBudget {
 public:
  // No limit.
  ReasoningBudget() = default;
  explicit ReasoningBudget(ReasoningLimit limit);

  // The next tokens of the answer, and their text.
  void Take(std::span<const TokenId> tokens, std::string_view text);
  // The portion has ended, and the answer continues. True: with the forced tokens, which are not
  // given to Take.
  bool EndPortion();

  const std::vector<TokenId>& forced() const { return limit_.forced; }
  bool is_over() const { return state_ == State::kOver; }
  // The tokens that may be drawn before EndPortion must be called. REQUIRES: !is_over().
  std::uint32_t room() const { return room_; }

 private:
  enum class State : std::uint8_t { kBefore, kInside, kOver };

  // Advances `matched`, the number of tokens of `tag` that were seen. Returns whether it is whole.
  static bool Advance(const std::vector<TokenId>& tag, TokenId token, std::size_t& matched);

  ReasoningLimit limit_;
  State state_ = State::kOver;
  void Begin();
  // Whether the text so far may be followed by the rest of the tag that opens.
  bool MayBegin() const;

  std::size_t matched_ = 0;  // tokens of the tag that is looked for
  std::string text_;         // before the reasoning; inside, the last bytes
  std::uint32_t room_ = 0;
};

}  // namespace kvd::http
