// DecodeRequest: kDecode: tokens in, logits written by the last product directly into the client's
// results segment.
//
// Room for the rows is reserved before each step; as many tokens are computed as rows have room, so
// that outputs larger than the arena come in pieces.
#pragma once

#include <optional>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

class DecodeRequest final : public ComputingRequest {
 public:
  // REQUIRES: tokens not empty and in range; one row fits the arena unless `wanted` is kNone.
  DecodeRequest(RequestOrigin origin, SequenceHandle sequence, Pos pos, std::vector<TokenId> tokens,
                wire::LogitsWanted wanted, std::uint32_t vocab_size);

  std::span<const TokenId> opening_prompt() const override;
  std::size_t opening_done() const override { return done_; }
  void SkipTo(std::size_t cells) override { done_ = cells; }
  std::size_t wanted_tokens() const override;
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t tokens_max, float* row, StepItem& item) override;
  bool ends_with(const StepItem& item) const override { return item.tokens.size() == left(); }
  void Finish(const StepItem& item, std::span<const float> row) override;

 private:
  std::size_t left() const { return tokens_.size() - done_; }

  const Pos pos_;
  const std::vector<TokenId> tokens_;
  const wire::LogitsWanted wanted_;
  const std::size_t row_bytes_;
  std::size_t done_ = 0;                       // tokens committed, or taken
  std::optional<Session::LogitsSpace> space_;  // of the step in progress
};

// kDivide: K rotated anew into fresh cells, between two steps.
class DivideRequest final : public ComputingRequest {
 public:
  DivideRequest(RequestOrigin origin, SequenceHandle sequence, PosRange range,
                std::int32_t divisor);

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  bool runs_alone() const override { return true; }
  void RunAlone(Engine& engine) override;

 private:
  const PosRange range_;
  const std::int32_t divisor_;
};

}  // namespace kvd
