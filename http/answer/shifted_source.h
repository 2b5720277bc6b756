// ShiftedSource: generations that a full context ends, or that go on after a shift of it.
//
// Invariant: no generation of the source below is asked for more tokens than the context has room
// for, and all of them together predict at most the tokens that Begin was given.
#pragma once

#include "http/answer/piece_source.h"

namespace kvd::http {

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

class ShiftedSource final : public PieceSource {
 public:
  // `inner` and `context` outlive the source. `shifts`: false: the answer ends in a full context.
  ShiftedSource(PieceSource& inner, BoundedContext& context, bool shifts)
      : inner_(inner), context_(context), shifts_(shifts) {}

  Status Begin(const GenerationPart& part) override;
  Await<Result<std::optional<AnswerPiece>>> Next() override;
  Await<Result<bool>> Prepare() override { return inner_.Prepare(); }
  const wire::GenerateResult& result() const override { return inner_.result(); }
  // The context was full.
  bool is_truncated() const { return is_truncated_; }

 private:
  Status BeginWithinRoom(GenerationPart part);
  // The generation of the source below has ended. Returns whether another one was begun.
  Await<Result<bool>> GoesOn();

  PieceSource& inner_;
  BoundedContext& context_;
  const bool shifts_;
  GenerationPart part_;    // that Begin was given
  std::int32_t left_ = 0;  // of its tokens; kNoLimit: any number
  bool is_truncated_ = false;
};

}  // namespace kvd::http
