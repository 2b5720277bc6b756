#include "daemon/embed_request.h"

#include <utility>

#include "base/text.h"
#include "engine/forward/encoder.h"

namespace kvd {
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

}  // namespace kvd
