// BudgetedSource: generations in portions, so that no token is drawn beyond a reasoning budget.
//
// Where the budget is used up, the answer continues behind the forced tokens, which come as a piece
// of their own. Invariant: the portions of one generation together have at most the tokens that
// Begin was given, the forced ones included. The budget counts through all generations of the
// answer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "http/answer/piece_source.h"
#include "http/answer/reasoning_budget.h"

namespace kvd::http {

class BudgetedSource final : public PieceSource {
 public:
  // Returns the text of the tokens.
  using TextOf = std::function<Await<Result<std::string>>(std::span<const TokenId>)>;

  // `inner` outlives the source. nullopt: without a limit.
  BudgetedSource(PieceSource& inner, const std::optional<ReasoningLimit>& limit, TextOf text_of)
      : inner_(inner),
        budget_(limit ? ReasoningBudget(*limit) : ReasoningBudget()),
        text_of_(std::move(text_of)) {}

  Status Begin(const GenerationPart& part) override;
  Await<Result<std::optional<AnswerPiece>>> Next() override;
  Await<Result<bool>> Prepare() override { return inner_.Prepare(); }
  const wire::GenerateResult& result() const override { return inner_.result(); }

 private:
  // Begins a part with as many tokens as the generation and the budget leave.
  Status BeginPortion(GenerationPart part);
  void Count(const AnswerPiece& piece);
  bool goes_on() const;
  // Begins the next portion. Returns the piece of the forced tokens, if it begins with them.
  Await<Result<std::optional<AnswerPiece>>> Continue();

  PieceSource& inner_;
  ReasoningBudget budget_;
  TextOf text_of_;
  GenerationPart part_;    // that Begin was given
  std::int32_t left_ = 0;  // of its tokens
};

}  // namespace kvd::http
