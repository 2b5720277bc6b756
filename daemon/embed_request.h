// EmbedRequest: kEmbed: a text through the encoder, some of it between two steps of the others.
#pragma once

#include <memory>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

class EmbedRequest final : public ComputingRequest {
 public:
  // REQUIRES: CheckEmbed is content with the tokens; the rows fit one piece of the client's arena.
  EmbedRequest(RequestOrigin origin, std::vector<TokenId> tokens, bool normalizes);

  std::size_t wanted_tokens() const override { return 0; }
  bool needs_row(std::size_t) const override { return false; }
  bool Fill(std::size_t, float*, StepItem&) override { return false; }
  void Finish(const StepItem&, std::span<const float>) override {}
  bool excludes_others() const override { return false; }
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kEncode; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  const std::vector<TokenId> tokens_;
  const bool normalizes_;
  Share buffers_;               // of the work
  std::unique_ptr<EmbedWork> work_;  // null: not begun, or over
};

}  // namespace kvd
