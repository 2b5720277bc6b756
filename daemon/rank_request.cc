#include "daemon/rank_request.h"

#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/vocabulary/rank_tokens.h"

namespace kvd {
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

}  // namespace kvd
