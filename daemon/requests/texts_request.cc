#include "daemon/requests/texts_request.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/forward/encoder.h"
#include "engine/vocabulary/rank_tokens.h"

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

namespace {

std::size_t TokensIn(const wire::TokenLists& texts) {
  std::size_t tokens = 0;
  for (const std::vector<TokenId>& text : texts) tokens += text.size();
  return tokens;
}

}  // namespace

EmbedRequest::EmbedRequest(RequestOrigin origin, wire::TokenLists texts, Pooling pooling,
                           bool normalizes)
    : TextsRequest(std::move(origin), texts.size(), TokensIn(texts), pooling),
      texts_(std::move(texts)),
      normalizes_(normalizes && pooling != Pooling::kRank) {}

Result<std::vector<TokenId>> EmbedRequest::TokensOf(const Engine&, std::size_t text) {
  return std::move(texts_[text]);
}

std::string EmbedRequest::NameOf(std::size_t text) const { return Concat("text ", text); }

void EmbedRequest::Take(Embedding embedding, std::size_t) {
  const std::span<float> values = embedding.values;
  for (std::size_t row = 0; normalizes_ && row < embedding.row_count; ++row)
    NormalizeRow(values.subspan(row * embedding.width, embedding.width));
  reply_.rows += embedding.row_count;
  reply_.width = embedding.width;
  reply_.is_normalised = normalizes_ ? 1 : 0;
  reply_.values.insert(reply_.values.end(), values.begin(), values.end());
}

void EmbedRequest::Answer() { SetReply(std::move(reply_)); }

namespace {

// An estimate: most tokens have more bytes.
constexpr std::size_t kBytesPerToken = 4;

std::size_t ExpectedTokens(const std::vector<std::string_view>& texts) {
  std::size_t bytes = texts.front().size() * (texts.size() - 1);
  for (const std::string_view text : texts) bytes += text.size();
  return bytes / kBytesPerToken;
}

}  // namespace

RankRequest::RankRequest(RequestOrigin origin, std::vector<std::byte> payload,
                         std::vector<std::string_view> texts)
    : TextsRequest(std::move(origin), texts.size() - 1, ExpectedTokens(texts), Pooling::kRank),
      payload_(std::move(payload)),
      texts_(std::move(texts)) {}

Result<std::vector<TokenId>> RankRequest::TokensOf(const Engine& engine, std::size_t text) {
  const std::string_view query = texts_.front(), document = texts_[text + 1];
  if (text == 0 && !IsValidUtf8(query)) {
    return Fail(Code::kInvalidArgument, "query: not valid UTF-8");
  }
  if (!IsValidUtf8(document)) return Fail(Code::kInvalidArgument, "not valid UTF-8");
  return RankTokens(engine.vocabulary(), query, document);
}

std::string RankRequest::NameOf(std::size_t text) const { return Concat("document ", text); }

void RankRequest::Take(Embedding embedding, std::size_t token_count) {
  reply_.tokens += token_count;
  reply_.scores.push_back(embedding.values.front());
}

void RankRequest::Answer() { SetReply(std::move(reply_)); }

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
