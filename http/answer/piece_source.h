// Sources of the pieces of an answer: what they have in common, and the sources over another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "http/backend/answer_piece.h"
#include "http/loop/await.h"
#include "shm/wire_generate.h"

namespace kvd::http {

// What a generation appends to the sequence of its answer.
struct GenerationPortion {
  static constexpr std::int32_t kNoLimit = std::numeric_limits<std::int32_t>::max();

  // Are computed first, and outlive the generation. Empty: it continues behind the last token.
  std::span<const TokenId> tokens;
  std::uint32_t first = 0;      // index of the first of them in the prompt; its size: behind it
  std::int32_t tokens_max = 0;  // to predict
  std::uint32_t flags = 0;      // wire::kContinue, wire::kResumeSampler
  bool may_skip_last = false;   // the last token need not be computed (wire::kSkipLast)

  // Of the tokens of a portion that follows this one.
  std::uint32_t next_first() const { return first + static_cast<std::uint32_t>(tokens.size()); }
};

// PieceSource: a source of the pieces of one answer.
//
// An answer is made by sources that lie over each other, and each has the same interface:
//
//   DaemonSource     one generation of the daemon after another, those of the journal first
//   BudgetedSource   generations in portions, which a reasoning budget continues
//   ShiftedSource    generations with shifts of a full context between them
//
// A source gives the pieces of one generation, which Begin begins, as the source below it does, and
// hides the generations that it begins itself. So the caller of the last source sees one generation
// from the first token of the answer to the last.
class PieceSource {
 public:
  PieceSource() = default;
  virtual ~PieceSource() = default;
  PieceSource(const PieceSource&) = delete;
  PieceSource& operator=(const PieceSource&) = delete;

  // Begins a generation. The one before has ended.
  virtual Status Begin(const GenerationPortion& portion) = 0;
  // Waits for the next piece; nullopt: the generation has ended, and result() is set.
  virtual Await<Result<std::optional<AnswerPiece>>> Next() = 0;
  // Before a further generation of the same answer: makes sure that the answer has its sequence.
  // Returns false if an earlier process has begun that generation, and has changed the sequence for
  // it already.
  virtual Await<Result<bool>> Prepare() = 0;
  virtual const wire::GenerateResult& result() const = 0;
};

// Whether a generation ended at the limit that it was given, so that the answer may go on.
inline bool EndsAtLimit(const wire::GenerateResult& result) {
  return result.finish != wire::kFinishEnd && result.finish != wire::kFinishGrammar &&
         result.finish != wire::kFinishStop;
}

// The cells of an answer, as far as their number limits the answer.
class BoundedContext {
 public:
  virtual ~BoundedContext() = default;
  // Tokens that still fit. The pieces that the source has given are counted.
  virtual std::uint32_t room() const = 0;
  // Removes cells behind those that are kept, and shifts the rest to their place. `is_done`: an
  // earlier process has done it, and it is noted only. Returns false if the model does not allow
  // it.
  virtual Await<Result<bool>> Shift(bool is_done) = 0;
};

// ShiftedSource: generations that a full context ends, or that go on after a shift of it.
//
// Invariant: no generation of the source below is asked for more tokens than the context has room
// for, and all of them together predict at most the tokens that Begin was given.
class ShiftedSource final : public PieceSource {
 public:
  // `inner` and `context` outlive the source. `shifts`: false: the answer ends in a full context.
  ShiftedSource(PieceSource& inner, BoundedContext& context, bool shifts)
      : inner_(inner), context_(context), shifts_(shifts) {}

  Status Begin(const GenerationPortion& portion) override;
  Await<Result<std::optional<AnswerPiece>>> Next() override;
  Await<Result<bool>> Prepare() override { return inner_.Prepare(); }
  const wire::GenerateResult& result() const override { return inner_.result(); }
  // The context was full.
  bool is_truncated() const { return is_truncated_; }

 private:
  Status BeginWithinRoom(GenerationPortion portion);
  // The generation of the source below has ended. Returns whether another one was begun.
  Await<Result<bool>> GoesOn();

  PieceSource& inner_;
  BoundedContext& context_;
  const bool shifts_;
  GenerationPortion portion_;  // that Begin was given
  std::int32_t left_ = 0;      // of its tokens; kNoLimit: any number
  bool is_truncated_ = false;
};

// ReasoningBudget: follows the tokens of an answer, and says when its reasoning must be ended.
//
// The budget counts the tokens behind the tag that opens the reasoning. When it is used up, the
// answer continues with the forced tokens, which close the reasoning. The generation is asked in
// portions, so that no token is drawn beyond the budget: room() is the length of the next portion.
//
// Tags are found as tokens, or as text: a model may write them with other tokens, and a tag that is
// one token may have no text. Reasoning at the beginning of the answer, behind white space, is
// found; later reasoning is not. A ReasoningBudget is a plain value.
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

// BudgetedSource: generations in portions, so that no token is drawn beyond a reasoning budget.
//
// Where the budget is used up, the answer continues behind the forced tokens, which come as a piece
// of their own. Invariant: the portions of one generation together have at most the tokens that
// Begin was given, the forced ones included. The budget counts through all generations of the
// answer.
class BudgetedSource final : public PieceSource {
 public:
  // Returns the text of the tokens.
  using TextOf = std::function<Await<Result<std::string>>(std::span<const TokenId>)>;

  // `inner` outlives the source. nullopt: without a limit.
  BudgetedSource(PieceSource& inner, const std::optional<ReasoningLimit>& limit, TextOf text_of)
      : inner_(inner),
        budget_(limit ? ReasoningBudget(*limit) : ReasoningBudget()),
        text_of_(std::move(text_of)) {}

  Status Begin(const GenerationPortion& portion) override;
  Await<Result<std::optional<AnswerPiece>>> Next() override;
  Await<Result<bool>> Prepare() override { return inner_.Prepare(); }
  const wire::GenerateResult& result() const override { return inner_.result(); }

 private:
  // Begins a portion with as many tokens as the generation and the budget leave.
  Status BeginPortion(GenerationPortion portion);
  void Count(const AnswerPiece& piece);
  bool goes_on() const;
  // Begins the next portion. Returns the piece of the forced tokens, if it begins with them.
  Await<Result<std::optional<AnswerPiece>>> Continue();

  PieceSource& inner_;
  ReasoningBudget budget_;
  TextOf text_of_;
  GenerationPortion portion_;  // that Begin was given
  std::int32_t left_ = 0;      // of its tokens
};

}  // namespace kvd::http
