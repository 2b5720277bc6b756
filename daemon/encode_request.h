// EncodeRequest: kEncode: runs the text that a sequence's decoder attends to through the encoder,
// in slices between steps, with one commit at the end.
#pragma once

#include <memory>
#include <vector>

#include "daemon/computing_request.h"

namespace kvd {

class EncodeRequest final : public ComputingRequest, public SlicedWork {
 public:
  // `start_token`: the token with which decoding starts, for the answer; -1: none. REQUIRES:
  // CheckEncode accepts the tokens.
  EncodeRequest(RequestOrigin origin, SequenceHandle sequence, std::vector<TokenId> tokens,
                TokenId start_token);

  SlicedWork* sliced_work() override { return this; }
  std::size_t work_left() const override;
  WorkKind work_kind() const override { return WorkKind::kEncode; }
  void DoWork(Engine& engine, std::size_t tokens) override;
  void OnCancel() override;

 private:
  const std::vector<TokenId> tokens_;
  const TokenId start_token_;
  Share buffers_;  // the share that counts the memory of work_
  // The work of the request; null: the work has not begun, or has ended.
  std::unique_ptr<EngineWork> work_;
};

}  // namespace kvd
