// EncodeRequest: kEncode: the text that a sequence's decoder attends to, through the encoder, between
// two steps of the others.
#pragma once

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
  bool runs_alone() const override { return true; }
  void RunAlone(Engine& engine) override;

 private:
  const std::vector<TokenId> tokens_;
  const TokenId start_token_;
};

}  // namespace kvd
