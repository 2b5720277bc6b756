#include "daemon/embed_request.h"

#include <utility>

#include "engine/forward/encoder.h"

namespace kvd {

EmbedRequest::EmbedRequest(RequestOrigin origin, std::vector<TokenId> tokens, bool normalizes)
    : ComputingRequest(std::move(origin), SequenceHandle::kNone),
      tokens_(std::move(tokens)),
      normalizes_(normalizes) {}

std::size_t EmbedRequest::work_left() const {
  if (finishing()) return 0;
  return work_ ? work_->tokens_left() : tokens_.size();
}

void EmbedRequest::DoWork(Engine& engine, std::size_t tokens) {
  if (!work_) {
    buffers_ = ShareForWork();
    const Status counted = buffers_.Grow(EncoderBytes(engine.config(), tokens_.size()));
    if (!counted) return EndWith(counted.error());
    auto work = engine.StartEmbed(tokens_);
    if (!work) return EndWith(work.error());
    work_ = std::move(*work);
  }
  const Result<bool> is_done = work_->Advance(tokens);
  if (is_done && !*is_done) return;
  const std::unique_ptr<EmbedWork> over = std::move(work_);
  buffers_ = {};
  if (!is_done) return EndWith(is_done.error());
  Embedding embedding = over->TakeEmbedding();
  const std::span<float> values = embedding.values;
  for (std::size_t row = 0; normalizes_ && row < embedding.row_count; ++row)
    NormalizeRow(values.subspan(row * embedding.width, embedding.width));
  SetReply(wire::EmbedReply{.rows = embedding.row_count,
                            .width = embedding.width,
                            .values = std::move(embedding.values)});
}

void EmbedRequest::OnCancel() {
  work_.reset();
  buffers_ = {};
  ComputingRequest::OnCancel();
}

}  // namespace kvd
