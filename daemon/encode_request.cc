#include "daemon/encode_request.h"

#include <utility>

#include "engine/forward/encoder.h"

namespace kvd {

EncodeRequest::EncodeRequest(RequestOrigin origin, SequenceHandle sequence,
                             std::vector<TokenId> tokens, TokenId start_token)
    : ComputingRequest(std::move(origin), sequence),
      tokens_(std::move(tokens)),
      start_token_(start_token) {}

std::size_t EncodeRequest::work_left() const {
  if (finishing()) return 0;
  return work_ ? work_->tokens_left() : tokens_.size();
}

void EncodeRequest::DoWork(Engine& engine, std::size_t tokens) {
  if (!work_) {
    buffers_ = ShareForWork();
    const Status counted = buffers_.Grow(EncoderBytes(engine.config(), tokens_.size()));
    if (!counted) return EndWith(counted.error());
    auto work = engine.StartEncode(sequence(), tokens_, applied());
    if (!work) return EndWith(work.error());
    work_ = std::move(*work);
  }
  const Result<bool> is_done = work_->Advance(tokens);
  if (is_done && !*is_done) return;
  work_.reset();
  buffers_ = {};
  if (!is_done) return EndWith(is_done.error());
  wire::EncodeReply reply{.sequence = sequence(), .tokens = tokens_.size()};
  if (start_token_ >= 0) reply.start_token = start_token_;
  SetReply(reply);
}

void EncodeRequest::OnCancel() {
  work_.reset();
  buffers_ = {};
  ComputingRequest::OnCancel();
}

}  // namespace kvd
