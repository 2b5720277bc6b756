// EmbedRequest: kEmbed: runs a text through the encoder, in slices between steps.
#pragma once

#include <memory>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

class EmbedRequest final : public ComputingRequest {
 public:
  // REQUIRES: CheckEmbed accepts the tokens; the rows fit into one piece of the client's arena.
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
  Share buffers_;  // the share that counts the memory of work_
  // The work of the request; null: the work has not begun, or has ended.
  std::unique_ptr<EmbedWork> work_;
};

}  // namespace kvd
