// EncodeRequest: kEncode: the text that a sequence's decoder attends to, through the encoder, some of
// it between two steps of the others, and one commit at the end.
#pragma once

#include <memory>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

class EncodeRequest final : public ComputingRequest {
 public:
  // start_token: that decoding starts with, or -1. REQUIRES: CheckEncode is content with the tokens.
  EncodeRequest(RequestOrigin origin, SequenceHandle sequence, std::vector<TokenId> tokens,
                TokenId start_token);

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kEncode; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  const std::vector<TokenId> tokens_;
  const TokenId start_token_;
  Share buffers_;                // of the work
  std::unique_ptr<EngineWork> work_;  // null: not begun, or over
};

}  // namespace kvd
