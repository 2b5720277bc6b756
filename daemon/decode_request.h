// DecodeRequest: kDecode: tokens in, logits written by the last product directly into the client's
// results segment.
//
// Room for the rows is reserved before each step; as many tokens are computed as rows have room, so
// that outputs larger than the arena come in pieces.
#pragma once

#include <optional>
#include <vector>

#include "daemon/computing_request.h"
#include "daemon/take_back.h"

namespace kvd {

// Where a request goes on that was sent again: the first `done` tokens are computed and their rows,
// if wanted, with the client; of the `lost` behind them the rows went nowhere.
struct DecodeResumption {
  std::size_t done = 0;
  std::size_t lost = 0;
};

class DecodeRequest final : public ComputingRequest {
 public:
  // `pos`: of the first token. REQUIRES: tokens not empty and in range; one row fits the arena
  // unless `wanted` is kNone; something is left to compute or nothing is wanted.
  DecodeRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos, std::vector<TokenId> tokens,
                wire::LogitsWanted wanted, std::uint32_t vocab_size,
                const DecodeResumption& resumption = {});

  std::span<const TokenId> opening_prompt() const override;
  std::size_t opening_done() const override { return done_; }
  void SkipTo(std::size_t cells) override { done_ = cells; }
  std::size_t wanted_tokens() const override;
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t tokens_max, float* row, StepItem& item) override;
  bool ends_with(const StepItem& item) const override {
    return item.status && item.tokens.size() == left();
  }
  void Finish(const StepItem& item, std::span<const float> row) override;
  std::size_t work_left() const override { return take_back_ ? take_back_->tokens_left() : 0; }
  WorkKind work_kind() const override { return WorkKind::kReplay; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;
  void FailWith(const Error& error) override;

 private:
  std::size_t left() const { return tokens_.size() - done_; }

  const Pos pos_;
  const std::vector<TokenId> tokens_;
  const wire::LogitsWanted wanted_;
  const std::size_t row_bytes_;
  std::size_t done_ = 0;                       // tokens committed, or taken
  std::optional<TakeBack> take_back_;          // before anything is computed, or after failure_
  std::optional<Error> failure_;               // the answer, when what was appended is taken back
  std::optional<Session::LogitsSpace> space_;  // of the step in progress
};

// kDivide: K rotated anew into fresh cells, some between two steps, and one commit at the end.
class DivideRequest final : public ComputingRequest {
 public:
  // cell_count: of the sequence, at most so many are rewritten.
  DivideRequest(RequestOrigin origin, SequenceHandle sequence, PosRange range, std::int32_t divisor,
                std::size_t cell_count);

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kRewrite; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  const PosRange range_;
  const std::int32_t divisor_;
  const std::size_t cell_count_;
  std::unique_ptr<CellWork> work_;  // null: not begun, or over
};

}  // namespace kvd
