#include "daemon/texts_request.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engine/forward/encoder.h"

namespace kvd {

std::size_t TextsRequest::work_left() const {
  if (finishing()) return 0;
  const std::size_t later = std::max(expected_tokens_, text_count_ - text_);
  return work_ ? work_->tokens_left() + later - 1 : later;
}

Status TextsRequest::Start(Engine& engine) {
  KVD_TRY(const std::vector<TokenId> tokens, TokensOf(engine, text_));
  token_count_ = tokens.size();
  expected_tokens_ -= std::min(expected_tokens_, token_count_);
  KVD_CHECK_OK(CheckEmbed(engine.config(), tokens, pooling_));
  if (text_ == 0) answer_ = ShareForWork();
  buffers_ = ShareForWork();
  KVD_CHECK_OK(buffers_.Grow(EncoderBytes(engine.config(), token_count_)));
  KVD_TRY(work_, engine.StartEmbed(tokens, pooling_));
  return {};
}

void TextsRequest::DoWork(Engine& engine, std::size_t tokens) {
  const auto end = [this](const Error& error) {
    work_.reset();
    buffers_ = {};
    EndWith(Error{error.code, Concat(NameOf(text_), ": ", error.message)});
  };
  if (!work_) {
    const Status started = Start(engine);
    if (!started) return end(started.error());
  }
  const Result<bool> is_done = work_->Advance(tokens);
  if (!is_done) return end(is_done.error());
  if (!*is_done) return;
  Embedding embedding = work_->TakeEmbedding();
  const Status counted = answer_.Grow(embedding.values.size() * sizeof(float));
  if (!counted) return end(counted.error());
  Take(std::move(embedding), token_count_);
  work_.reset();
  buffers_ = {};
  if (++text_ == text_count_) Answer();
}

void TextsRequest::OnCancel() {
  work_.reset();
  buffers_ = {};
  ComputingRequest::OnCancel();
}

}  // namespace kvd
