// DecodeRequest: kDecode, which computes tokens and returns logits. The last matrix product writes
// the logits directly into the client's result segment.
//
// A DecodeRequest reserves room for the rows of logits before each step. Each step computes as many
// tokens as there is room for rows, so outputs larger than the arena are sent in pieces.
#pragma once

#include <optional>
#include <vector>

#include "daemon/requests/appending_request.h"
#include "daemon/schedule/computing_request.h"

namespace kvd {

// The point from which a retried request resumes. The first `done` tokens are computed, and the
// client has received the rows of logits of these tokens if it wanted rows. The next `lost` tokens
// are computed, but the client has not received their rows, so the `lost` tokens are computed
// again.
struct DecodeResumption {
  std::size_t done = 0;
  std::size_t lost = 0;
  // Number of cells that the sequence had before the request.
  std::uint64_t first_cell = 0;
};

class DecodeRequest final : public AppendingRequest {
 public:
  // `pos`: position of the first token. REQUIRES: tokens is not empty and in range; one row fits
  // into the arena or `wanted` is kNone; at least one token is left to compute or `wanted` is
  // kNone.
  DecodeRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos, std::vector<TokenId> tokens,
                wire::LogitsWanted wanted, std::uint32_t vocab_size,
                const DecodeResumption& resumption = {});

  std::span<const TokenId> opening_prompt() const override;
  std::size_t opening_done() const override { return done_; }
  void SkipTo(std::size_t cells) override { done_ = cells; }
  std::size_t wanted_tokens() const override;
  bool needs_row(std::size_t) const override { return false; }
  RequestTokens tokens() const override { return {.done = done_, .wanted = tokens_.size()}; }
  bool Fill(std::size_t tokens_max, float* row, StepItem& item) override;
  bool ends_with(const StepItem& item) const override {
    return item.status && item.tokens.size() == left();
  }
  void Finish(const StepItem& item, std::span<const float> row) override;
  std::uint64_t TakeSampledCount() override { return 0; }

 private:
  std::optional<Pos> FirstAppended() const override {
    return done_ == 0 ? std::nullopt : std::optional(pos_);
  }
  std::size_t left() const { return tokens_.size() - done_; }

  const Pos pos_;
  const std::vector<TokenId> tokens_;
  const wire::LogitsWanted wanted_;
  const std::size_t row_bytes_;
  const std::uint64_t first_cell_;
  // Number of tokens that are committed or were taken from other sequences.
  std::size_t done_ = 0;
  std::optional<Session::LogitsSpace> space_;  // space for the logits of the step in progress
};

// DivideRequest: kDivide. A DivideRequest writes rotated keys into new cells, in slices between
// steps, with one commit at the end.
class DivideRequest final : public ComputingRequest, public SlicedWork {
 public:
  // `cell_count`: the number of the sequence's cells; the request rewrites at most that many cells.
  DivideRequest(RequestOrigin origin, SequenceHandle sequence, PosRange range, std::int32_t divisor,
                std::size_t cell_count);

  SlicedWork* sliced_work() override { return this; }
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kRewrite; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  const PosRange range_;
  const std::int32_t divisor_;
  const std::size_t cell_count_;
  // The work of the request; null: the work has not begun, or has ended.
  std::unique_ptr<CellWork> work_;
};

}  // namespace kvd
