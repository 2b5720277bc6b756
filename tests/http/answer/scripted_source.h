// ScriptedSource: a source of pieces for tests, which gives the generations that a test writes and
// notes what it was asked for.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "http/answer/piece_source.h"

namespace kvd::test {

class ScriptedSource final : public http::PieceSource {
 public:
  struct Generation {
    std::vector<http::AnswerPiece> pieces;
    std::uint32_t finish = wire::kFinishLength;
    bool is_begun_already = false;  // by an earlier process
    std::optional<Error> prepare_error = std::nullopt;
  };

  void Put(Generation generation) { generations_.push_back(std::move(generation)); }
  // What Begin was given, in order; `tokens` are in `appended`.
  const std::vector<http::GenerationPortion>& portions() const { return portions_; }
  const std::vector<std::vector<TokenId>>& appended() const { return appended_; }
  int prepared() const { return prepared_; }

  Status Begin(const http::GenerationPortion& portion) override;
  http::Await<Result<std::optional<http::AnswerPiece>>> Next() override;
  http::Await<Result<bool>> Prepare() override;
  const wire::GenerateResult& result() const override { return result_; }

 private:
  std::deque<Generation> generations_;
  std::optional<Generation> present_;
  std::vector<http::GenerationPortion> portions_;
  std::vector<std::vector<TokenId>> appended_;
  wire::GenerateResult result_{};
  std::size_t at_ = 0;  // the next of the present pieces
  int prepared_ = 0;
};

// A piece of tokens, whose text has one letter for each: 1 is "a".
http::AnswerPiece LetterPiece(std::vector<TokenId> tokens);

// What a source gives until its generation ends.
struct SourceEnd {
  std::vector<TokenId> tokens;
  std::string text;
  std::string error;
};
SourceEnd TakeAllPieces(http::PieceSource& source);

}  // namespace kvd::test
